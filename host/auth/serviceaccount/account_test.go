package serviceaccount

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/auth/view/viewtest"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/go-jose/go-jose.v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type bench struct {
	objects *viewtest.Memory
	issuer  *Issuer
	key     *ecdsa.PrivateKey
	account *corev1.ServiceAccount
	now     time.Time
}

func meta(namespace, name string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{objects: &viewtest.Memory{}, key: newKey(t), now: noon}
	b.account = &corev1.ServiceAccount{ObjectMeta: meta("dev", "web", "sa-1")}
	b.objects.Put(view.ServiceAccounts, b.account)
	b.objects.Put(view.Pods, &corev1.Pod{ObjectMeta: meta("dev", "web-0", "pod-1"), Spec: corev1.PodSpec{ServiceAccountName: "web", NodeName: "n1"}})
	b.objects.Put(view.Pods, &corev1.Pod{ObjectMeta: meta("dev", "db-0", "pod-2"), Spec: corev1.PodSpec{ServiceAccountName: "db"}})
	b.objects.Put(view.Secrets, &corev1.Secret{ObjectMeta: meta("dev", "s", "secret-1")})
	b.objects.Put(view.Nodes, &corev1.Node{ObjectMeta: meta("", "n1", "node-1")})
	var err error
	b.issuer, err = NewIssuer(b.objects, b.key, "", func() time.Time { return b.now })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) token(t testing.TB, spec authenticationv1.TokenRequestSpec) string {
	t.Helper()
	req, err := b.issuer.IssueToken(t.Context(), b.account, &authenticationv1.TokenRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return req.Status.Token
}

func boundTo(kind, name string, uid types.UID) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name, UID: uid}
}

func TestATokenNamesItsAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := b.token(t, authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-0", "pod-1")})
	for range 2 { // verified, then remembered
		response, ok, err := b.issuer.AuthenticateToken(t.Context(), token)
		if !ok || err != nil {
			t.Fatalf("AuthenticateToken = %v, %v", ok, err)
		}
		if got := response.User.GetName(); got != "system:serviceaccount:dev:web" {
			t.Errorf("user = %s", got)
		}
		if diff := cmp.Diff([]string{"system:serviceaccounts", "system:serviceaccounts:dev"}, response.User.GetGroups()); diff != "" {
			t.Errorf("groups (-want +got):\n%s", diff)
		}
		extra := response.User.GetExtra()
		if got := extra["authentication.kubernetes.io/pod-name"]; len(got) != 1 || got[0] != "web-0" {
			t.Errorf("pod = %v", got)
		}
		if got := extra["authentication.kubernetes.io/node-uid"]; len(got) != 1 || got[0] != "node-1" {
			t.Errorf("node uid = %v", got)
		}
	}
}

func TestATokenEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec authenticationv1.TokenRequestSpec
		end  func(*bench)
	}{
		"with its time":    {end: func(b *bench) { b.now = noon.Add(time.Hour) }},
		"before its time":  {end: func(b *bench) { b.now = noon.Add(-2 * time.Minute) }},
		"with its account": {end: func(b *bench) { b.objects.Drop(view.ServiceAccounts, "dev", "web") }},
		"when its account is made anew": {end: func(b *bench) {
			b.objects.Put(view.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: meta("dev", "web", "sa-2")})
		}},
		"with its pod": {
			spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-0", "")},
			end:  func(b *bench) { b.objects.Drop(view.Pods, "dev", "web-0") },
		},
		"when its pod is made anew": {
			spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-0", "")},
			end:  func(b *bench) { b.objects.Put(view.Pods, &corev1.Pod{ObjectMeta: meta("dev", "web-0", "pod-9")}) },
		},
		"when its pod has long been deleted": {
			spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-0", "")},
			end: func(b *bench) {
				pod := &corev1.Pod{ObjectMeta: meta("dev", "web-0", "pod-1")}
				gone := metav1.NewTime(noon.Add(-2 * time.Minute))
				pod.DeletionTimestamp = &gone
				b.objects.Put(view.Pods, pod)
			},
		},
		"with its secret": {
			spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Secret", "s", "secret-1")},
			end:  func(b *bench) { b.objects.Drop(view.Secrets, "dev", "s") },
		},
		"with its node": {
			spec: authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Node", "n1", "node-1")},
			end:  func(b *bench) { b.objects.Drop(view.Nodes, "", "n1") },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			token := b.token(t, test.spec)
			if _, ok, err := b.issuer.AuthenticateToken(t.Context(), token); !ok {
				t.Fatalf("the token did not hold at first: %v", err)
			}
			test.end(b)
			if _, ok, err := b.issuer.AuthenticateToken(t.Context(), token); ok || err == nil {
				t.Errorf("AuthenticateToken = %v, %v, want an error", ok, err)
			}
		})
	}
}

func TestAudiences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	vault := b.token(t, authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}})
	own := b.token(t, authenticationv1.TokenRequestSpec{})
	if _, ok, err := b.issuer.AuthenticateToken(t.Context(), vault); ok || err == nil {
		t.Errorf("the API took a token for another audience: %v, %v", ok, err)
	}
	ctx := authenticator.WithAudiences(t.Context(), authenticator.Audiences{"vault"})
	response, ok, err := b.issuer.AuthenticateToken(ctx, vault)
	if !ok || !cmp.Equal(response.Audiences, authenticator.Audiences{"vault"}) {
		t.Errorf("AuthenticateToken = %v, %v", ok, err)
	}
	if _, ok, _ := b.issuer.AuthenticateToken(ctx, own); ok {
		t.Error("a token for the API was taken for another audience")
	}
}

func TestWhatIsNotIssued(t *testing.T) {
	t.Parallel()
	seconds := func(n int64) *int64 { return &n }
	tests := map[string]struct {
		spec authenticationv1.TokenRequestSpec
		is   func(error) bool
	}{
		"a token for a minute":           {authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(60)}, apierrors.IsInvalid},
		"a token for ages":               {authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds(1<<32 + 1)}, apierrors.IsInvalid},
		"one bound to a missing pod":     {authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "none", "")}, apierrors.IsNotFound},
		"one bound to another pod":       {authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-0", "pod-9")}, apierrors.IsConflict},
		"one bound to a foreign pod":     {authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "db-0", "")}, apierrors.IsBadRequest},
		"one bound to a kind of no kind": {authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Service", "web", "")}, apierrors.IsBadRequest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			_, err := b.issuer.IssueToken(t.Context(), b.account, &authenticationv1.TokenRequest{Spec: test.spec})
			if !test.is(err) {
				t.Errorf("IssueToken = %v", err)
			}
		})
	}
}

func TestForgedTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good := b.token(t, authenticationv1.TokenRequestSpec{})
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
	c := &claims{}
	if err := json.Unmarshal(payload, c); err != nil {
		t.Fatal(err)
	}
	stranger, err := other.sign(c)
	if err != nil {
		t.Fatal(err)
	}
	// The public key as an HMAC secret, under the right key id.
	public, err := b.issuer.Keys()
	if err != nil {
		t.Fatal(err)
	}
	hmac, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: &jose.JSONWebKey{Key: public, KeyID: b.issuer.signer.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := hmac.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	confused, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	impersonating := *c
	impersonating.Subject = "system:serviceaccount:kube-system:root"
	mismatched, err := b.issuer.signer.sign(&impersonating)
	if err != nil {
		t.Fatal(err)
	}
	forgeries := map[string]string{
		"another key":           stranger,
		"no signature":          parts[0] + "." + parts[1] + ".",
		"algorithm none":        encode(`{"alg":"none","kid":"`+b.issuer.signer.id+`"}`) + "." + parts[1] + ".",
		"algorithm confusion":   confused,
		"changed claims":        parts[0] + "." + encode(strings.Replace(string(payload), "dev", "prd", -1)) + "." + parts[2],
		"a flipped signature":   parts[0] + "." + parts[1] + "." + "A" + parts[2][1:] + "A",
		"a foreign subject":     mismatched,
		"JSON instead of parts": `{"payload":"` + parts[1] + `","signatures":[]}`,
	}
	for name, token := range forgeries {
		if _, ok, err := b.issuer.AuthenticateToken(t.Context(), token); ok {
			t.Errorf("%s was believed (%v)", name, err)
		}
	}
	if _, ok, err := b.issuer.AuthenticateToken(t.Context(), good); !ok {
		t.Errorf("the good token was not believed: %v", err)
	}
}

func TestDiscoveryChecksTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	handler := b.issuer.Discovery()
	get := func(path string) []byte {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%s = %d", path, w.Code)
		}
		return w.Body.Bytes()
	}
	var config map[string]any
	if err := json.Unmarshal(get(ConfigurationPath), &config); err != nil {
		t.Fatal(err)
	}
	if config["issuer"] != DefaultIssuer || config["jwks_uri"] != DefaultIssuer+"/openid/v1/jwks" {
		t.Errorf("configuration = %v", config)
	}
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal(get(KeysPath), &keys); err != nil {
		t.Fatal(err)
	}
	token, err := jose.ParseSigned(b.token(t, authenticationv1.TokenRequestSpec{}))
	if err != nil {
		t.Fatal(err)
	}
	if !keys.Keys[0].IsPublic() {
		t.Fatal("the key set gives the private key away")
	}
	if _, err := token.Verify(keys.Key(token.Signatures[0].Header.KeyID)[0].Key); err != nil {
		t.Errorf("a relying party cannot check the token: %v", err)
	}
}

func TestNamespacesAreFurnished(t *testing.T) {
	t.Parallel()
	objects := &viewtest.Memory{}
	defaults := NewDefaults(objects, []byte("PEM"), func() time.Time { return noon })
	objects.Put(view.Namespaces, &corev1.Namespace{ObjectMeta: meta("", "dev", "1")})
	objects.Put(view.Namespaces, &corev1.Namespace{ObjectMeta: meta("", "old", "2"), Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}})
	restore := func() {
		t.Helper()
		if err := defaults.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	root := func() string {
		t.Helper()
		config, err := view.Get[*corev1.ConfigMap](t.Context(), objects, view.ConfigMaps, "dev", RootConfigMap)
		if err != nil {
			t.Fatal(err)
		}
		return config.Data["ca.crt"]
	}
	restore()
	account, err := view.Get[*corev1.ServiceAccount](t.Context(), objects, view.ServiceAccounts, "dev", DefaultAccount)
	if err != nil || account.UID == "" || account.CreationTimestamp.IsZero() {
		t.Fatalf("account = %v, %v", account, err)
	}
	if got := root(); got != "PEM" {
		t.Errorf("root = %q", got)
	}
	if all, _ := objects.List(t.Context(), view.ServiceAccounts, "old"); len(all) > 0 {
		t.Error("a namespace that ends was set up")
	}
	version := objects.Version(view.ConfigMaps)
	restore()
	if objects.Version(view.ConfigMaps) != version {
		t.Error("restoring what is there wrote something")
	}
	objects.Put(view.ConfigMaps, &corev1.ConfigMap{ObjectMeta: meta("dev", RootConfigMap, "3"), Data: map[string]string{"ca.crt": "EVIL"}})
	restore()
	if got := root(); got != "PEM" {
		t.Errorf("root = %q after a change", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := newMemory(4)
	first := [32]byte{1}
	m.put(first, &claims{ID: "first"})
	for i := range byte(100) {
		m.put([32]byte{2, i}, &claims{})
		if m.get(first) == nil {
			t.Fatal("what is asked for all the time was forgotten")
		}
		if n := len(m.young) + len(m.old); n > 8 {
			t.Fatalf("it holds %d", n)
		}
	}
}

func FuzzToken(f *testing.F) {
	b := newBench(f)
	good := b.token(f, authenticationv1.TokenRequestSpec{})
	f.Add(good)
	f.Add(good[:len(good)-4])
	f.Add(b.filled(f))
	f.Add("a.b.c")
	f.Add("...")
	f.Fuzz(func(t *testing.T, token string) {
		response, ok, err := b.issuer.AuthenticateToken(t.Context(), token)
		if ok && (err != nil || response.User.GetName() != "system:serviceaccount:dev:web") {
			t.Errorf("%q was believed (%v)", token, err)
		}
	})
}

func BenchmarkAuthenticateToken(b *testing.B) {
	bench := newBench(b)
	token := bench.token(b, authenticationv1.TokenRequestSpec{BoundObjectRef: boundTo("Pod", "web-0", "pod-1")})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := bench.issuer.AuthenticateToken(b.Context(), token); !ok {
			b.Fatal(err)
		}
	}
}

func TestATokenIsOfTheAccountThatItsRequestNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want func(error) bool
	}{
		"nothing":           {metav1.ObjectMeta{}, nil},
		"the account":       {meta("dev", "web", "sa-1"), nil},
		"another name":      {meta("dev", "db", ""), apierrors.IsInvalid},
		"another namespace": {meta("prod", "web", ""), apierrors.IsInvalid},
		"a former account":  {meta("dev", "web", "sa-0"), apierrors.IsConflict},
	} {
		got, err := b.issuer.IssueToken(t.Context(), b.account, &authenticationv1.TokenRequest{ObjectMeta: c.meta})
		switch {
		case c.want != nil && !c.want(err):
			t.Errorf("a request that names %s: %v", name, err)
		case c.want == nil && (err != nil || got.Name != "web" || got.Namespace != "dev" || got.UID != "sa-1" || !got.CreationTimestamp.Time.Equal(noon)):
			t.Errorf("a request that names %s: %+v, %v, want the account's name and the time", name, got, err)
		}
	}
}
