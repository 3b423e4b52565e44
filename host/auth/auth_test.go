package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/auth/ca"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// codec keeps the few kinds that this room needs as JSON.
type codec struct{}

var kinds = map[string]func() store.Object{
	view.Namespaces:          func() store.Object { return &corev1.Namespace{} },
	view.Nodes:               func() store.Object { return &corev1.Node{} },
	view.Pods:                func() store.Object { return &corev1.Pod{} },
	view.Secrets:             func() store.Object { return &corev1.Secret{} },
	view.PriorityClasses:     func() store.Object { return &schedulingv1.PriorityClass{} },
	view.StorageClasses:      func() store.Object { return &storagev1.StorageClass{} },
	view.ConfigMaps:          func() store.Object { return &corev1.ConfigMap{} },
	view.ServiceAccounts:     func() store.Object { return &corev1.ServiceAccount{} },
	view.Roles:               func() store.Object { return &rbacv1.Role{} },
	view.RoleBindings:        func() store.Object { return &rbacv1.RoleBinding{} },
	view.ClusterRoles:        func() store.Object { return &rbacv1.ClusterRole{} },
	view.ClusterRoleBindings: func() store.Object { return &rbacv1.ClusterRoleBinding{} },
}

func (codec) Encode(obj store.Object) ([]byte, error) { return json.Marshal(obj) }

func (codec) Decode(resource string, data []byte) (store.Object, error) {
	make, ok := kinds[resource]
	if !ok {
		return nil, fmt.Errorf("no kind for %s", resource)
	}
	obj := make()
	return obj, json.Unmarshal(data, obj)
}

func newStore(t *testing.T, engine store.Engine) *store.Store {
	t.Helper()
	byNode := func(obj store.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }
	s, err := store.Open(t.Context(), engine, codec{}, store.Options{
		Indexes: map[string]map[string]store.IndexFunc{view.Pods: {view.NodeIndex: byNode}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func open(t *testing.T, s *store.Store) *Auth {
	t.Helper()
	a, err := Open(t.Context(), Config{Dir: t.TempDir(), Objects: view.Of(s)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func put(t *testing.T, s *store.Store, resource string, obj store.Object) {
	t.Helper()
	if _, _, err := s.Commit(t.Context(), view.Fresh(resource, obj, time.Now())); err != nil {
		t.Fatal(err)
	}
}

func TestCallersOverTLS(t *testing.T) {
	t.Parallel()
	s := newStore(t, store.NewMemory())
	a := open(t, s)
	url, client := serve(t, a)
	token, err := a.NewToken(t.Context(), time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	bearer, pin, _ := strings.Cut(token, ":")
	if pin != a.Authority.Hash() {
		t.Errorf("the token pins %s", pin)
	}
	tests := map[string]struct {
		as            *ca.Subject
		path          string
		authorization string
		impersonate   string
		want          string
	}{
		"the administrator":                {as: &ca.Admin, want: "berth-admin [system:masters system:authenticated]"},
		"the administrator as somebody":    {as: &ca.Admin, impersonate: "erin", want: "erin [system:authenticated]"},
		"the scheduler":                    {as: &ca.Scheduler, want: "system:kube-scheduler [system:authenticated]"},
		"the scheduler as the admin":       {as: &ca.Scheduler, impersonate: "berth-admin", want: "403 Forbidden"},
		"a joining machine":                {authorization: "Bearer " + bearer, want: "system:bootstrap:" + bearer[:6] + " [system:bootstrappers system:authenticated]"},
		"a forged token":                   {authorization: "Bearer " + bearer[:7] + "0000000000000000", want: "401 Unauthorized"},
		"nobody":                           {path: "/api", want: "401 Unauthorized"},
		"nobody who asks for the version":  {path: "/version", want: "system:anonymous [system:unauthenticated]"},
		"nobody as the administrator":      {path: "/version", impersonate: "berth-admin", want: "403 Forbidden"},
		"health with a path that climbs":   {path: "/healthz/..%2fapi", want: "401 Unauthorized"},
		"health with a path of a longer s": {path: "/healthz%00", want: "401 Unauthorized"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.authorization != "" {
				r.Header.Set("Authorization", test.authorization)
			}
			if test.impersonate != "" {
				r.Header.Set("Impersonate-User", test.impersonate)
			}
			answer, err := client(test.as).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			got := answer.Header.Get("Who")
			if got == "" {
				got = answer.Status
			}
			if got != test.want {
				t.Errorf("the server saw %q, want %q", got, test.want)
			}
		})
	}
}

// serve answers each request with who sent it.
func serve(t *testing.T, a *Auth) (url string, client func(*ca.Subject) *http.Client) {
	t.Helper()
	certificate, err := a.Authority.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var who user.Info
		sender, _, err := a.AuthenticateRequest(r)
		if err == nil {
			who, err = a.Impersonate(r, sender.User)
		}
		if err != nil {
			var status interface{ Status() metav1.Status }
			if errors.As(err, &status) {
				w.WriteHeader(int(status.Status().Code))
			}
			return
		}
		w.Header().Set("Who", fmt.Sprint(who.GetName(), " ", who.GetGroups()))
	}))
	// The listener's own certificate comes from GetCertificate.
	server.TLS = certificate.TLS()
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, func(as *ca.Subject) *http.Client {
		config := &tls.Config{RootCAs: a.Authority.Pool(), ServerName: "localhost"}
		if as != nil {
			pair, err := a.Authority.Issue(*as)
			if err != nil {
				t.Fatal(err)
			}
			cert, err := pair.TLS()
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{cert}
		}
		transport := &http.Transport{TLSClientConfig: config}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
}

func TestUpkeepFurnishesNamespacesAsTheyCome(t *testing.T) {
	t.Parallel()
	s := newStore(t, store.NewMemory())
	a := open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	put(t, s, view.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "dev"}})
	await(t, s, store.Key{Resource: view.ServiceAccounts, Namespace: "dev", Name: "default"})
	config := store.Key{Resource: view.ConfigMaps, Namespace: "dev", Name: "kube-root-ca.crt"}
	await(t, s, config)
	if _, _, err := s.Commit(t.Context(), store.Op{Kind: store.Delete, Key: config}); err != nil {
		t.Fatal(err)
	}
	await(t, s, config)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// await follows the resource until the object is there.
func await(t *testing.T, s *store.Store, key store.Key) {
	t.Helper()
	awaitState(t, s, key, func(_ store.Object, ok bool) bool { return ok })
}

// awaitState follows the resource until the object, or its absence, is as it should be.
func awaitState(t *testing.T, s *store.Store, key store.Key, done func(obj store.Object, ok bool) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		seen := s.Changed(key.Resource)
		if done(s.Get(key)) {
			return
		}
		if err := view.Of(s).Await(ctx, key.Resource, seen); err != nil {
			t.Fatalf("%s did not come: %v", key, err)
		}
	}
}

// TestUpkeepFillsSecretsOfAccounts: and a review believes what it wrote, until
// the account is gone and takes the Secret with it.
func TestUpkeepFillsSecretsOfAccounts(t *testing.T) {
	t.Parallel()
	s := newStore(t, store.NewMemory())
	a := open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	put(t, s, view.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "web"}})
	put(t, s, view.Secrets, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "web-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "web"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	})
	key, token := store.Key{Resource: view.Secrets, Namespace: "dev", Name: "web-token"}, ""
	awaitState(t, s, key, func(obj store.Object, _ bool) bool {
		data := obj.(*corev1.Secret).Data
		token = string(data["token"])
		return token != "" && string(data["ca.crt"]) == string(a.Authority.PEM())
	})
	review := func() authenticationv1.TokenReviewStatus {
		t.Helper()
		obj, err := a.Review(t.Context(), nil, "", &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*authenticationv1.TokenReview).Status
	}
	want := []string{"system:serviceaccounts", "system:serviceaccounts:dev", "system:authenticated"}
	if got := review(); !got.Authenticated || got.User.Username != "system:serviceaccount:dev:web" || !cmp.Equal(got.User.Groups, want) {
		t.Errorf("review = %+v", got)
	}
	account := store.Key{Resource: view.ServiceAccounts, Namespace: "dev", Name: "web"}
	if _, _, err := s.Commit(t.Context(), store.Op{Kind: store.Delete, Key: account}); err != nil {
		t.Fatal(err)
	}
	if got := review(); got.Authenticated || got.Error == "" {
		t.Errorf("after the account's end: %+v", got)
	}
	awaitState(t, s, key, func(_ store.Object, ok bool) bool { return !ok })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestASecondStartFindsEverythingInPlace(t *testing.T) {
	t.Parallel()
	engine, dir := store.NewMemory(), t.TempDir()
	s := newStore(t, engine)
	first, err := Open(t.Context(), Config{Dir: dir, Objects: view.Of(s)})
	if err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "web"}}
	put(t, s, view.ServiceAccounts, account)
	req, err := first.IssueToken(t.Context(), account, &authenticationv1.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	revision := s.Revision()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = newStore(t, engine)
	second, err := Open(t.Context(), Config{Dir: dir, Objects: view.Of(s)})
	if err != nil {
		t.Fatal(err)
	}
	if s.Revision() != revision {
		t.Errorf("the second start wrote: revision %d, then %d", revision, s.Revision())
	}
	if _, ok, err := second.Accounts.AuthenticateToken(t.Context(), req.Status.Token); !ok {
		t.Errorf("a token did not survive the restart: %v", err)
	}
}

func TestEveryClusterHasItsNamespaces(t *testing.T) {
	t.Parallel()
	s := newStore(t, store.NewMemory())
	open(t, s)
	for _, name := range SystemNamespaces {
		for _, key := range []store.Key{
			{Resource: view.Namespaces, Name: name},
			{Resource: view.ServiceAccounts, Namespace: name, Name: "default"},
			{Resource: view.ConfigMaps, Namespace: name, Name: "kube-root-ca.crt"},
		} {
			if _, ok := s.Get(key); !ok {
				t.Errorf("%s is missing", key)
			}
		}
	}
}

// TestServersBehindTheAPIKnowItsFrontProxy: also those of a cluster that was made
// before there was one.
func TestServersBehindTheAPIKnowItsFrontProxy(t *testing.T) {
	t.Parallel()
	s, dir := newStore(t, store.NewMemory()), t.TempDir()
	put(t, s, view.ConfigMaps, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"}, Data: map[string]string{"client-ca-file": "old"},
	})
	a, err := Open(t.Context(), Config{Dir: dir, Objects: view.Of(s)})
	if err != nil {
		t.Fatal(err)
	}
	o, ok := s.Get(store.Key{Resource: view.ConfigMaps, Namespace: "kube-system", Name: "extension-apiserver-authentication"})
	if !ok {
		t.Fatal("nothing tells which clients' certificates hold")
	}
	data := o.(*corev1.ConfigMap).Data
	if data["client-ca-file"] != string(a.Authority.PEM()) || data["requestheader-allowed-names"] != `["front-proxy-client"]` ||
		data["requestheader-username-headers"] != `["X-Remote-User"]` || data["requestheader-group-headers"] != `["X-Remote-Group"]` ||
		data["requestheader-extra-headers-prefix"] != `["X-Remote-Extra-"]` {
		t.Errorf("clients are believed by %v", data)
	}
	cert, err := a.FrontProxyClient.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(data["requestheader-client-ca-file"]))
	verify := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := cert.Leaf.Verify(verify); err != nil || cert.Leaf.Subject.CommonName != "front-proxy-client" {
		t.Errorf("the front proxy is %s, %v", cert.Leaf.Subject, err)
	}
	verify.Roots = a.Authority.Pool()
	if _, err := cert.Leaf.Verify(verify); err == nil {
		t.Error("the front proxy's certificate holds at the API")
	}
}

func TestReviews(t *testing.T) {
	t.Parallel()
	s := newStore(t, store.NewMemory())
	a := open(t, s)
	put(t, s, view.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "erin"}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
	})
	erin := &user.DefaultInfo{Name: "erin", Groups: []string{user.AllAuthenticated}}
	pods := func(verb string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Namespace: "dev", Verb: verb, Resource: "pods"}
	}
	allowed := func(by user.Info, spec authorizationv1.SelfSubjectAccessReviewSpec) bool {
		t.Helper()
		got, err := a.Review(t.Context(), by, "", &authorizationv1.SelfSubjectAccessReview{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		return got.(*authorizationv1.SelfSubjectAccessReview).Status.Allowed
	}
	if !allowed(erin, authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: pods("list")}) {
		t.Error("erin may not list pods")
	}
	if allowed(erin, authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: pods("create")}) {
		t.Error("erin may create pods")
	}
	if !allowed(erin, authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/api"}}) {
		t.Error("erin may not discover")
	}
	node := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}
	watch := pods("watch")
	watch.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: "spec.nodeName=n1"}
	if !allowed(node, authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: watch}) {
		t.Error("a node may not watch its pods")
	}
	if _, err := a.Review(t.Context(), erin, "", &authorizationv1.SelfSubjectAccessReview{}); err == nil {
		t.Error("a review that asks nothing was answered")
	}
	local := &authorizationv1.LocalSubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "erin", ResourceAttributes: pods("list")}}
	if _, err := a.Review(t.Context(), erin, "prod", local); err == nil {
		t.Error("a local review looked into another namespace")
	}
	rules, err := a.Review(t.Context(), erin, "", &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "dev"}})
	if err != nil || len(rules.(*authorizationv1.SelfSubjectRulesReview).Status.ResourceRules) < 5 {
		t.Errorf("rules = %v, %v", rules, err)
	}
	self, err := a.Review(t.Context(), erin, "", &authenticationv1.SelfSubjectReview{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("erin", self.(*authenticationv1.SelfSubjectReview).Status.UserInfo.Username); diff != "" {
		t.Errorf("self (-want +got):\n%s", diff)
	}
}

func TestTokenReviews(t *testing.T) {
	t.Parallel()
	s := newStore(t, store.NewMemory())
	a := open(t, s)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "web"}}
	put(t, s, view.ServiceAccounts, account)
	req, err := a.IssueToken(t.Context(), account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}}})
	if err != nil {
		t.Fatal(err)
	}
	review := func(token string, audiences ...string) authenticationv1.TokenReviewStatus {
		t.Helper()
		got, err := a.Review(t.Context(), &user.DefaultInfo{}, "", &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}})
		if err != nil {
			t.Fatal(err)
		}
		return got.(*authenticationv1.TokenReview).Status
	}
	got := review(req.Status.Token, "vault", "other")
	if !got.Authenticated || got.User.Username != "system:serviceaccount:dev:web" || !cmp.Equal(got.Audiences, []string{"vault"}) {
		t.Errorf("status = %+v", got)
	}
	if got := review(req.Status.Token); got.Authenticated || got.Error == "" {
		t.Errorf("a token for another audience: %+v", got)
	}
	own, err := a.IssueToken(t.Context(), account, &authenticationv1.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// As the API asks: its context tells for whom the reviewer's own token was.
	ctx := authenticator.WithAudiences(t.Context(), nil)
	asked, err := a.Review(ctx, &user.DefaultInfo{}, "", &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: own.Status.Token}})
	if got := asked.(*authenticationv1.TokenReview).Status; err != nil || !got.Authenticated || !cmp.Equal(got.Audiences, a.Accounts.Audiences()) {
		t.Errorf("a token for the API, reviewed without audiences: %+v, %v", got, err)
	}
	if got := review("hello"); got.Authenticated {
		t.Errorf("a token of no kind: %+v", got)
	}
}

func TestTheLiveViewConfinesNodes(t *testing.T) {
	t.Parallel()
	s := newStore(t, store.NewMemory())
	a := open(t, s)
	put(t, s, view.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n1",
		Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}}})
	for node, want := range map[string]authorizer.Decision{"n1": authorizer.DecisionAllow, "n2": authorizer.DecisionNoOpinion} {
		got, reason, err := a.Access.Authorize(t.Context(), authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{user.NodesGroup}},
			Verb: "get", Resource: "secrets", Namespace: "dev", Name: "s", ResourceRequest: true,
		})
		if err != nil || got != want {
			t.Errorf("node %s: %v (%s, %v), want %v", node, got, reason, err, want)
		}
	}
}
