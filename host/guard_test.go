package host_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcommand "k8s.io/client-go/tools/remotecommand"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/auth/bootstrap"
	"github.com/berth-dev/berth/host/auth/ca"
)

// joined is a machine that went the whole way: it found the host by the hash in
// its token, sent its requests and got its certificates.
func joined(t *testing.T, serving host.Serving, name string) kubernetes.Interface {
	t.Helper()
	client, _ := joinedServing(t, serving, name)
	return client
}

// joinedServing gives the machine's configuration as a server too.
func joinedServing(t *testing.T, serving host.Serving, name string) (kubernetes.Interface, *tls.Config) {
	t.Helper()
	text, err := serving.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	token, pin, _ := strings.Cut(text, ":")
	key, client := request(t)
	serverKey, server := request(t)
	body, err := json.Marshal(bootstrap.Request{NodeName: name, ClientCSR: client, ServingCSR: server})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, serving.URL+bootstrap.Path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{TLSClientConfig: pinned(pin)}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var certificates bootstrap.Response
	if err := json.NewDecoder(answer.Body).Decode(&certificates); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("join = %s, %v", answer.Status, err)
	}
	own, err := tls.X509KeyPair([]byte(certificates.ServingCertificate), serverKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certificates.CACertificate))
	machine := clientOf(t, &rest.Config{Host: serving.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAData: []byte(certificates.CACertificate), CertData: []byte(certificates.ClientCertificate), KeyData: key,
	}})
	return machine, &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}
}

// pinned trusts the authority that the handshake shows, if it has the hash.
func pinned(pin string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		for _, cert := range state.PeerCertificates {
			if !cert.IsCA || ca.HashOf(cert) != pin {
				continue
			}
			roots := x509.NewCertPool()
			roots.AddCert(cert)
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
			return err
		}
		return fmt.Errorf("no authority with the hash %s", pin)
	}}
}

func request(t *testing.T) (key []byte, csr string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// bare is the administrator's configuration without credentials.
func bare(t *testing.T, serving host.Serving) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", serving.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config = rest.AnonymousClientConfig(config)
	config.QPS = -1
	return config
}

func TestAMachineJoinsAndIsConfined(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	node := joined(t, serving, "n1")
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error, what string) {
		t.Helper()
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want forbidden", what, err)
		}
	}
	_, err := node.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{v1.LabelHostname: "n1"}}}, metav1.CreateOptions{})
	must(err)
	_, err = node.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, metav1.CreateOptions{})
	refused(err, "a node for another machine")
	_, err = node.CoreV1().Nodes().Patch(ctx, "n1", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"node-restriction.kubernetes.io/gold":"1"}}}`), metav1.PatchOptions{})
	refused(err, "a label of the restricted kind")
	_, err = node.CoreV1().Nodes().Patch(ctx, "n1", "application/merge-patch+json", []byte(`{"spec":{"taints":[{"key":"mine","effect":"NoSchedule"}]}}`), metav1.PatchOptions{})
	refused(err, "changing its taints")
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	_, err = node.CoordinationV1().Leases("kube-node-lease").Create(ctx, lease("n1"), metav1.CreateOptions{})
	must(err)
	_, err = node.CoordinationV1().Leases("kube-node-lease").Create(ctx, lease("n2"), metav1.CreateOptions{})
	refused(err, "another machine's lease")

	secret := func(name string) {
		t.Helper()
		_, err := admin.CoreV1().Secrets("default").Create(ctx, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(err)
	}
	secret("mounted")
	secret("other")
	_, err = node.CoreV1().Secrets("default").Get(ctx, "mounted", metav1.GetOptions{})
	refused(err, "a secret before a pod needs it")
	pod, err := admin.CoreV1().Pods("default").Create(ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: v1.PodSpec{
			NodeName: "n1", Containers: []v1.Container{{Name: "c", Image: "i"}},
			Volumes: []v1.Volume{{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "mounted"}}}},
		},
	}, metav1.CreateOptions{})
	must(err)
	_, err = node.CoreV1().Secrets("default").Get(ctx, "mounted", metav1.GetOptions{})
	must(err)
	_, err = node.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	must(err)
	_, err = node.CoreV1().Secrets("default").Get(ctx, "other", metav1.GetOptions{})
	refused(err, "a secret that no pod needs")
	_, err = node.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	refused(err, "all secrets")
	_, err = node.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	refused(err, "all pods")
	pods, err := node.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
	must(err)
	if len(pods.Items) != 1 || pods.Items[0].Name != "p" {
		t.Errorf("its pods = %v", pods.Items)
	}
	_, err = node.CoreV1().Pods("default").Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
	refused(err, "a pod of its own")
	_, err = node.CoreV1().Pods("default").Patch(ctx, "p", "application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	must(err)

	token := func(account string, bound *authenticationv1.BoundObjectReference) error {
		_, err := node.CoreV1().ServiceAccounts("default").CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
		return err
	}
	must(token("default", &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: pod.UID}))
	refused(token("default", nil), "a token bound to nothing")
	refused(token("default", &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "x"}), "a token for a pod of the past")
}

// echo runs commands by printing them.
type echo struct{}

func (echo) ExecInContainer(_ context.Context, _, _, container string, cmd []string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %s: %s", container, strings.Join(cmd, " "), text)
	return err
}

// ServeHTTP is a node agent's server, which knows the host by its certificate.
func (e echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if who := r.TLS.PeerCertificates[0].Subject; who.CommonName != ca.AgentClient.Name {
		http.Error(w, "not the host", http.StatusForbidden)
		return
	}
	if parts[0] != "exec" {
		fmt.Fprintf(w, "log of %s\n", strings.Join(parts[1:], "/"))
		return
	}
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, e, parts[2], "", parts[3], r.URL.Query()["command"], opts, time.Minute, 10*time.Second, remotecommand.SupportedStreamingProtocols)
}

func TestStreamsGoThroughTheWholeHost(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	node, config := joinedServing(t, serving, "n1")
	agent := httptest.NewUnstartedServer(echo{})
	agent.TLS = config
	agent.StartTLS()
	t.Cleanup(agent.Close)
	ctx := t.Context()
	self := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	self, err := node.CoreV1().Nodes().Create(ctx, self, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	port := agent.Listener.Addr().(*net.TCPAddr).Port
	patch := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, port)
	if _, err := node.CoreV1().Nodes().Patch(ctx, self.Name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	if _, err := admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	log, err := admin.CoreV1().Pods("default").GetLogs("p", &v1.PodLogOptions{}).DoRaw(ctx)
	if err != nil || string(log) != "log of default/p/c\n" {
		t.Errorf("log = %q, %v", log, err)
	}
	if _, err := node.CoreV1().Pods("default").GetLogs("p", &v1.PodLogOptions{}).DoRaw(ctx); !apierrors.IsForbidden(err) {
		t.Errorf("a machine reads logs by way of the host: %v", err)
	}

	user, err := clientcmd.BuildConfigFromFlags("", serving.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	where := admin.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("p").SubResource("exec").
		VersionedParams(&v1.PodExecOptions{Command: []string{"say", "it"}, Stdin: true, Stdout: true}, scheme.ParameterCodec).URL()
	spdy, err := clientcommand.NewSPDYExecutor(user, http.MethodPost, where)
	if err != nil {
		t.Fatal(err)
	}
	websocket, err := clientcommand.NewWebSocketExecutor(user, http.MethodGet, where.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, executor := range map[string]clientcommand.Executor{"SPDY": spdy, "WebSocket": websocket} {
		var out bytes.Buffer
		err := executor.StreamWithContext(ctx, clientcommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out})
		if err != nil || out.String() != "c: say it: hello" {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

func TestAServiceAccountDoesWhatItsRoleAllows(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	ctx := t.Context()
	req, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := bare(t, serving)
	config.BearerToken = req.Status.Token
	account := clientOf(t, config)
	if _, err := account.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "system:serviceaccount:default:default" cannot list resource "pods" in API group "" in the namespace "default"`) {
		t.Errorf("before the binding: %v", err)
	}
	_, err = admin.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "default"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := account.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("right after the binding: %v", err)
	}
	review, err := account.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "delete", Resource: "pods"}},
	}, metav1.CreateOptions{})
	if err != nil || review.Status.Allowed {
		t.Errorf("review = %+v, %v", review.Status, err)
	}
	if err := admin.CoreV1().ServiceAccounts("default").Delete(ctx, "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := account.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("after the account's end: %v", err)
	}
}

// TestASecretGetsATokenThatEndsWithIt, by a client that makes the Secret, waits
// for its token, and signs in by it.
func TestASecretGetsATokenThatEndsWithIt(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	secrets := admin.CoreV1().Secrets("default")
	w, err := secrets.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=robot"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	_, err = secrets.Create(ctx, &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "robot", Annotations: map[string]string{v1.ServiceAccountNameKey: "default"}},
		Type:       v1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := bare(t, serving)
	for ev := range w.ResultChan() {
		secret, ok := ev.Object.(*v1.Secret)
		if !ok {
			t.Fatalf("watch: %v %+v", ev.Type, ev.Object)
		}
		if config.BearerToken = string(secret.Data["token"]); config.BearerToken != "" {
			if len(secret.Data["ca.crt"]) == 0 || string(secret.Data["namespace"]) != "default" {
				t.Errorf("beside the token there is %q", secret.Data)
			}
			break
		}
	}
	account := clientOf(t, config)
	who, err := account.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "system:serviceaccount:default:default" {
		t.Errorf("the token's bearer is %+v, %v", who, err)
	}
	if err := secrets.Delete(ctx, "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := account.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("after the Secret's end: %v", err)
	}
}

func TestNobodySeesHealthAndVersionAlone(t *testing.T) {
	t.Parallel()
	_, serving, _ := start(t, t.TempDir())
	transport, err := rest.TransportFor(bare(t, serving))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/livez": 200, "/readyz": 200, "/version": 200,
		"/": 401, "/api": 401, "/apis": 401, "/api/v1/pods": 401, "/openapi/v3": 401, "/metrics": 401, "/openid/v1/jwks": 401,
		"/healthz/../api/v1/secrets": 401, "/healthz%2f..%2fapi/v1/secrets": 401, "//api/v1/pods": 401, "/version/..": 401, "/nothing": 401,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, serving.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, answer.StatusCode, want)
		}
	}
}

func TestAFloodOfListsLeavesLeasesAlone(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	node := joined(t, serving, "n1")
	ctx, cancel := context.WithCancel(t.Context())
	text := strings.Repeat("x", 4<<10)
	for i := range 500 {
		_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)}, Data: map[string]string{"k": text}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	lease, err := node.CoordinationV1().Leases("kube-node-lease").Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var flood sync.WaitGroup
	for range 64 {
		flood.Go(func() {
			for ctx.Err() == nil {
				_, _ = admin.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
			}
		})
	}
	defer flood.Wait()
	defer cancel()
	var slowest time.Duration
	for range 20 {
		begun := time.Now()
		now := metav1.NewMicroTime(begun)
		lease.Spec.RenewTime = &now
		if lease, err = node.CoordinationV1().Leases("kube-node-lease").Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(begun))
	}
	t.Logf("the slowest of 20 renewals under the flood took %s", slowest)
	if slowest > 10*time.Second {
		t.Errorf("a renewal took %s: a node would be lost", slowest)
	}
}
