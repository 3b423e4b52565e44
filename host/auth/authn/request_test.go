package authn

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/auth/view/viewtest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/asn1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return noon }

func certOf(name string, groups []string, until time.Time) *tls.ConnectionState {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: groups}, NotAfter: until}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
}

func TestACertificateNamesItsUsersUID(t *testing.T) {
	t.Parallel()
	requests := NewRequests(clock)
	for _, test := range []struct {
		uids []any
		want string
		ok   bool
	}{
		{nil, "", true}, {[]any{"7"}, "7", true}, {[]any{"7", "8"}, "", false}, {[]any{""}, "", false}, {[]any{7}, "", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.TLS = certOf("alice", nil, noon.Add(time.Hour))
		subject := &r.TLS.PeerCertificates[0].Subject
		for _, uid := range test.uids {
			subject.Names = append(subject.Names, pkix.AttributeTypeAndValue{Type: asn1.X509UID(), Value: uid})
		}
		response, ok, err := requests.AuthenticateRequest(r)
		if ok != test.ok || ok && response.User.GetUID() != test.want {
			t.Errorf("with the UIDs %v: %v, %v, %v; want %q, %v", test.uids, response, ok, err, test.want, test.ok)
		}
	}
}

func TestWhoSentARequest(t *testing.T) {
	t.Parallel()
	objects := &viewtest.Memory{}
	token, err := NewToken(t.Context(), objects, time.Hour, "", noon)
	if err != nil {
		t.Fatal(err)
	}
	id, secret, _ := strings.Cut(token, ".")
	unverified := certOf("alice", nil, noon.Add(time.Hour))
	unverified.VerifiedChains = nil
	requests := NewRequests(clock, NewBootstrap(objects, clock))
	tests := map[string]struct {
		method, path, authorization string
		header                      http.Header
		tls                         *tls.ConnectionState
		want                        string // "" is 401
	}{
		"a client certificate":                      {tls: certOf("alice", []string{"dev"}, noon.Add(time.Hour)), want: "alice [dev system:authenticated]"},
		"a certificate that has expired since":      {tls: certOf("alice", nil, noon.Add(-time.Second))},
		"a certificate that names nobody":           {tls: certOf("", []string{"system:masters"}, noon.Add(time.Hour))},
		"a certificate that nobody verified":        {tls: unverified},
		"an expired certificate and a good token":   {tls: certOf("alice", nil, noon.Add(-time.Second)), authorization: "Bearer " + token},
		"a bootstrap token":                         {authorization: "Bearer " + token, want: "system:bootstrap:" + id + " [system:bootstrappers system:authenticated]"},
		"the scheme in other letters":               {authorization: "bearer " + token, want: "system:bootstrap:" + id + " [system:bootstrappers system:authenticated]"},
		"a bootstrap token with the wrong secret":   {authorization: "Bearer " + id + "." + strings.Repeat("a", 16)},
		"a bootstrap token that was never made":     {authorization: "Bearer zzzzzz." + secret},
		"a token of no kind":                        {authorization: "Bearer hello"},
		"an empty token":                            {authorization: "Bearer "},
		"a password":                                {authorization: "Basic YTpi"},
		"a very long token":                         {authorization: "Bearer " + strings.Repeat("a", maxToken+1)},
		"a bad token is not anonymous for health":   {path: "/healthz", authorization: "Bearer hello"},
		"nobody asks for pods":                      {path: "/api/v1/pods"},
		"nobody asks for health":                    {path: "/healthz", want: "system:anonymous [system:unauthenticated]"},
		"nobody asks for one check of readiness":    {path: "/readyz/store", want: "system:anonymous [system:unauthenticated]"},
		"nobody asks for the version":               {path: "/version", want: "system:anonymous [system:unauthenticated]"},
		"nobody posts to health":                    {method: http.MethodPost, path: "/healthz"},
		"nobody tricks with dots":                   {path: "/healthz/../api/v1/secrets"},
		"nobody tricks with slashes":                {path: "/healthz//api"},
		"nobody tricks with a longer name":          {path: "/healthzz"},
		"nobody tricks with deeper health":          {path: "/healthz/a/b"},
		"nobody tricks with version":                {path: "/version/../api"},
		"a WebSocket with the token in a protocol":  {header: webSocket(token, "v5.channel.k8s.io"), want: "system:bootstrap:" + id + " [system:bootstrappers system:authenticated]"},
		"a WebSocket with the token alone":          {header: webSocket(token)},
		"a WebSocket with a bad token is refused":   {header: webSocket("hello", "v5.channel.k8s.io")},
		"a WebSocket for health without a protocol": {path: "/healthz", header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, want: "system:anonymous [system:unauthenticated]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method := test.method
			if method == "" {
				method = http.MethodGet
			}
			r := httptest.NewRequest(method, "/", nil)
			if test.path != "" {
				r.URL.Path = test.path
			}
			r.TLS = test.tls
			if test.header != nil {
				r.Header = test.header.Clone()
			}
			if test.authorization != "" {
				r.Header.Set("Authorization", test.authorization)
			}
			response, ok, err := requests.AuthenticateRequest(r)
			if ok != (err == nil) || err != nil && !errors.Is(err, ErrUnauthorized) {
				t.Fatalf("AuthenticateRequest = %v, %v", ok, err)
			}
			got := ""
			if ok {
				got = text(response.User)
			}
			if got != test.want {
				t.Errorf("AuthenticateRequest = %q (%v), want %q", got, err, test.want)
			}
			if strings.Contains(r.Header.Get("Sec-WebSocket-Protocol"), tokenProtocol) && ok {
				t.Error("the token was left in the protocols")
			}
		})
	}
}

// tokenProtocol is how Kubernetes' clients name a token as a protocol.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

func webSocket(token string, protocols ...string) http.Header {
	all := append([]string{tokenProtocol + base64.RawURLEncoding.EncodeToString([]byte(token))}, protocols...)
	return http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {strings.Join(all, ", ")}}
}

func text(who user.Info) string {
	return who.GetName() + " [" + strings.Join(who.GetGroups(), " ") + "]"
}

func TestBootstrapTokens(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*corev1.Secret)
		groups []string // nil is refused
	}{
		"as made": {groups: []string{BootstrapGroup}},
		"with an extra group": {func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:bootstrappers:gpu") },
			[]string{BootstrapGroup, "system:bootstrappers:gpu"}},
		"with a group above its station": {func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }, nil},
		"with a bare prefix as group":    {func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:bootstrappers:") }, nil},
		"expired":                        {func(s *corev1.Secret) { s.Data["expiration"] = []byte(noon.Format(time.RFC3339)) }, nil},
		"with an expiration in no form":  {func(s *corev1.Secret) { s.Data["expiration"] = []byte("tomorrow") }, nil},
		"not for authentication":         {func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") }, nil},
		"of another type":                {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, nil},
		"with another id inside":         {func(s *corev1.Secret) { s.Data["token-id"] = []byte("zzzzzz") }, nil},
		"without a secret inside":        {func(s *corev1.Secret) { delete(s.Data, "token-secret") }, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := &viewtest.Memory{}
			token, err := NewToken(t.Context(), objects, time.Hour, "for a test", noon)
			if err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				id, _, _ := strings.Cut(token, ".")
				stored, err := view.Get[*corev1.Secret](t.Context(), objects, view.Secrets, "kube-system", secretPrefix+id)
				if err != nil {
					t.Fatal(err)
				}
				changed := stored.DeepCopy()
				test.change(changed)
				objects.Put(view.Secrets, changed)
			}
			response, ok, err := NewBootstrap(objects, clock).AuthenticateToken(t.Context(), token)
			var groups []string
			if ok {
				groups = response.User.GetGroups()
			}
			if diff := cmp.Diff(test.groups, groups); diff != "" {
				t.Errorf("groups (-want +got), err %v:\n%s", err, diff)
			}
		})
	}
}

func TestSpentBootstrapTokensAreRemoved(t *testing.T) {
	t.Parallel()
	objects := &viewtest.Memory{}
	for description, life := range map[string]time.Duration{"spent": time.Hour, "good": time.Hour + time.Second, "for ever": 0} {
		if _, err := NewToken(t.Context(), objects, life, description, noon); err != nil {
			t.Fatal(err)
		}
	}
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "other"}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"description": []byte("no token"), "expiration": []byte(noon.Format(time.RFC3339))}}
	objects.Put(view.Secrets, other)
	if err := Sweep(t.Context(), objects, noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	secrets, err := view.List[*corev1.Secret](t.Context(), objects, view.Secrets, "")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, s := range secrets {
		left = append(left, string(s.Data["description"]))
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{"for ever", "good", "no token"}, left); diff != "" {
		t.Errorf("left are (-want +got):\n%s", diff)
	}
}

func TestTokensDifferAndAreOfTheForm(t *testing.T) {
	t.Parallel()
	objects := &viewtest.Memory{}
	seen := map[string]bool{}
	for range 200 {
		token, err := NewToken(t.Context(), objects, 0, "", noon)
		if err != nil {
			t.Fatal(err)
		}
		if !tokenForm.MatchString(token) || seen[token] {
			t.Fatalf("token %q has no form or came before", token)
		}
		seen[token] = true
	}
}

func FuzzBearer(f *testing.F) {
	f.Add("Bearer abcdef.0123456789abcdef", "")
	f.Add("", "base64url.bearer.authorization.k8s.io.YWJj, v5.channel.k8s.io")
	f.Fuzz(func(t *testing.T, authorization, protocol string) {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Authorization": {authorization}, "Sec-Websocket-Protocol": {protocol}}
		response, ok, err := NewRequests(clock, NewBootstrap(&viewtest.Memory{}, clock)).AuthenticateRequest(r)
		if ok || !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%q, %q were believed to be of %v: %v", authorization, protocol, response, err)
		}
	})
}
