package serviceaccount

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/auth/view"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
)

func (b *bench) sync(t testing.TB) {
	t.Helper()
	if err := NewTokenSecrets(b.objects, b.issuer, []byte("PEM"), func() time.Time { return b.now }).Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// secret is the Secret of that name as it is now, nil if it is gone.
func (b *bench) secret(t testing.TB, namespace, name string) *corev1.Secret {
	t.Helper()
	secret, err := view.Get[*corev1.Secret](t.Context(), b.objects, view.Secrets, namespace, name)
	if err != nil && !view.Missing(err) {
		t.Fatal(err)
	}
	return secret
}

func tokenSecret(namespace, name, account string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: meta(namespace, name, "secret-9"), Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: account}
	return secret
}

// filled puts a Secret of the account web, and gives its token.
func (b *bench) filled(t testing.TB) string {
	t.Helper()
	b.objects.Put(view.Secrets, tokenSecret("dev", "web-token", "web"))
	b.sync(t)
	return string(b.secret(t, "dev", "web-token").Data["token"])
}

// change changes the Secret web-token.
func (b *bench) change(t testing.TB, how func(*corev1.Secret)) {
	t.Helper()
	next := b.secret(t, "dev", "web-token").DeepCopy()
	how(next)
	b.objects.Put(view.Secrets, next)
}

func TestASecretIsFilledWithATokenOfItsAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := b.filled(t)
	secret := b.secret(t, "dev", "web-token")
	if string(secret.Data["ca.crt"]) != "PEM" || string(secret.Data["namespace"]) != "dev" || secret.Annotations[corev1.ServiceAccountUIDKey] != "sa-1" {
		t.Errorf("the Secret has %q and %v", secret.Data, secret.Annotations)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("token = %q", token)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(payload, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"iss":                                    "kubernetes/serviceaccount",
		"sub":                                    "system:serviceaccount:dev:web",
		"kubernetes.io/serviceaccount/namespace": "dev",
		"kubernetes.io/serviceaccount/secret.name":          "web-token",
		"kubernetes.io/serviceaccount/service-account.name": "web",
		"kubernetes.io/serviceaccount/service-account.uid":  "sa-1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	version := b.objects.Version(view.Secrets)
	b.sync(t)
	if b.objects.Version(view.Secrets) != version {
		t.Error("a full Secret was written again")
	}
}

func TestWhatASecretLacksIsWrittenAgain(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"token", "ca.crt", "namespace"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.filled(t)
			before := b.secret(t, "dev", "web-token").Data
			b.change(t, func(s *corev1.Secret) { delete(s.Data, key) })
			b.sync(t)
			after := b.secret(t, "dev", "web-token").Data
			if len(after[key]) == 0 {
				t.Fatalf("%s is still missing", key)
			}
			for kept, value := range before {
				if kept != key && string(after[kept]) != string(value) {
					t.Errorf("%s was written anew with %s", kept, key)
				}
			}
		})
	}
	b := newBench(t)
	b.filled(t)
	b.change(t, func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("EVIL") })
	b.sync(t)
	if got := b.secret(t, "dev", "web-token").Data["ca.crt"]; string(got) != "PEM" {
		t.Errorf("ca.crt = %q", got)
	}
}

func TestWhichSecretsAreLeftAlone(t *testing.T) {
	t.Parallel()
	immutable, opaque, leaving := tokenSecret("dev", "immutable", "web"), tokenSecret("dev", "opaque", "web"), tokenSecret("dev", "leaving", "none")
	yes, gone := true, metav1.NewTime(noon)
	immutable.Immutable = &yes
	opaque.Type = corev1.SecretTypeOpaque
	leaving.DeletionTimestamp = &gone
	b := newBench(t)
	for _, secret := range []*corev1.Secret{immutable, opaque, leaving} {
		b.objects.Put(view.Secrets, secret)
	}
	version := b.objects.Version(view.Secrets)
	b.sync(t)
	if b.objects.Version(view.Secrets) != version {
		t.Error("one of them was written")
	}
}

func TestASecretGoesWithItsAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.objects.Put(view.Secrets, tokenSecret("dev", "early", "later"))
	b.objects.Put(view.Secrets, tokenSecret("prod", "foreign", "web")) // web is an account of dev
	b.filled(t)
	for _, secret := range []*corev1.Secret{b.secret(t, "dev", "early"), b.secret(t, "prod", "foreign")} {
		if secret != nil {
			t.Errorf("Secret %s/%s has no account and stays", secret.Namespace, secret.Name)
		}
	}
	b.change(t, func(s *corev1.Secret) { s.Finalizers = []string{"example.com/audit"} })
	b.objects.Put(view.Secrets, tokenSecret("dev", "second", "web"))
	b.sync(t)
	b.objects.Put(view.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: meta("dev", "web", "sa-2")})
	b.sync(t)
	if held := b.secret(t, "dev", "web-token"); held == nil || held.DeletionTimestamp == nil {
		t.Errorf("a finalizer holds what is to go: %v", held)
	}
	if b.secret(t, "dev", "second") != nil {
		t.Error("the Secret of an account that was made anew stays")
	}
	if b.secret(t, "dev", "s") == nil {
		t.Error("a Secret of another type was removed")
	}
}

func TestATokenOfASecretNamesItsAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := b.filled(t)
	b.now = noon.AddDate(10, 0, 0)
	for range 2 { // verified, then remembered
		response, ok, err := b.issuer.AuthenticateToken(t.Context(), token)
		if !ok || err != nil {
			t.Fatalf("AuthenticateToken = %v, %v", ok, err)
		}
		if who := response.User; who.GetName() != "system:serviceaccount:dev:web" || who.GetUID() != "sa-1" {
			t.Errorf("user = %s, %s", who.GetName(), who.GetUID())
		}
		if diff := cmp.Diff([]string{"system:serviceaccounts", "system:serviceaccounts:dev"}, response.User.GetGroups()); diff != "" {
			t.Errorf("groups (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(authenticator.Audiences{DefaultIssuer}, response.Audiences); diff != "" {
			t.Errorf("audiences (-want +got):\n%s", diff)
		}
	}
	ctx := authenticator.WithAudiences(t.Context(), authenticator.Audiences{"vault"})
	if _, ok, _ := b.issuer.AuthenticateToken(ctx, token); ok {
		t.Error("it was taken for another audience")
	}
}

func TestATokenOfASecretEnds(t *testing.T) {
	t.Parallel()
	gone := metav1.NewTime(noon)
	tests := map[string]func(*testing.T, *bench){
		"with its secret":           func(_ *testing.T, b *bench) { b.objects.Drop(view.Secrets, "dev", "web-token") },
		"with its account":          func(_ *testing.T, b *bench) { b.objects.Drop(view.ServiceAccounts, "dev", "web") },
		"as its secret is deleted":  func(t *testing.T, b *bench) { b.change(t, func(s *corev1.Secret) { s.DeletionTimestamp = &gone }) },
		"when its secret is edited": func(t *testing.T, b *bench) { b.change(t, func(s *corev1.Secret) { s.Data["token"] = []byte("mine") }) },
		"when its secret is marked": func(t *testing.T, b *bench) {
			b.change(t, func(s *corev1.Secret) { s.Labels = map[string]string{invalidSince: "2026-03-01"} })
		},
		"when its secret is retyped": func(t *testing.T, b *bench) { b.change(t, func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }) },
		"when it is renewed": func(t *testing.T, b *bench) {
			b.change(t, func(s *corev1.Secret) { delete(s.Data, "token") })
			b.sync(t)
		},
		"when its secret is made anew": func(t *testing.T, b *bench) {
			b.objects.Drop(view.Secrets, "dev", "web-token")
			b.filled(t)
		},
		"when its account is made anew": func(_ *testing.T, b *bench) {
			b.objects.Put(view.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: meta("dev", "web", "sa-2")})
		},
		"as its account is deleted": func(_ *testing.T, b *bench) {
			account := b.account.DeepCopy()
			account.DeletionTimestamp = &gone
			b.objects.Put(view.ServiceAccounts, account)
		},
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			token := b.filled(t)
			if _, ok, err := b.issuer.AuthenticateToken(t.Context(), token); !ok {
				t.Fatalf("the token did not hold at first: %v", err)
			}
			end(t, b)
			if _, ok, err := b.issuer.AuthenticateToken(t.Context(), token); ok || err == nil {
				t.Errorf("AuthenticateToken = %v, %v, want an error", ok, err)
			}
		})
	}
}

// TestForgedTokensOfSecrets: whoever may write a Secret may put any text there.
func TestForgedTokensOfSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good := b.filled(t)
	b.objects.Put(view.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: meta("kube-system", "root", "sa-9")})
	parts := strings.Split(good, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	encode := func(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) }
	other, err := newSigner(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(s *signer, how func(*legacyClaims)) string {
		c := &legacyClaims{}
		if err := json.Unmarshal(payload, c); err != nil {
			t.Fatal(err)
		}
		how(c)
		token, err := s.sign(c)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	bound := strings.Split(b.token(t, authenticationv1.TokenRequestSpec{}), ".")
	forgeries := map[string]string{
		"another key":       sign(other, func(*legacyClaims) {}),
		"changed claims":    parts[0] + "." + encode(strings.Replace(string(payload), "web", "web2", 1)) + "." + parts[2],
		"no signature":      parts[0] + "." + parts[1] + ".",
		"a foreign subject": sign(b.issuer.signer, func(c *legacyClaims) { c.Subject = "system:serviceaccount:kube-system:root" }),
		"a foreign account": sign(b.issuer.signer, func(c *legacyClaims) {
			c.Subject, c.Namespace, c.Account, c.AccountUID = "system:serviceaccount:kube-system:root", "kube-system", "root", "sa-9"
		}),
		"no secret":                       sign(b.issuer.signer, func(c *legacyClaims) { c.Secret = "" }),
		"a bound token's issuer":          sign(b.issuer.signer, func(c *legacyClaims) { c.Issuer = DefaultIssuer }),
		"a bound token around its claims": `{"payload":"` + bound[1] + `","protected":"` + bound[0] + `","signature":"` + bound[2] + `","x":".` + parts[1] + `."}`,
	}
	for name, token := range forgeries {
		b.change(t, func(s *corev1.Secret) { s.Data["token"] = []byte(token) })
		if response, ok, err := b.issuer.AuthenticateToken(t.Context(), token); ok {
			t.Errorf("%s was believed to be %s (%v)", name, response.User.GetName(), err)
		}
	}
	b.change(t, func(s *corev1.Secret) { s.Data["token"] = []byte(good) })
	if _, ok, err := b.issuer.AuthenticateToken(t.Context(), good); !ok {
		t.Errorf("the good token was not believed: %v", err)
	}
}
