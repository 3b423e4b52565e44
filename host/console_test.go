package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/console"
)

// tab is a browser's, as far as the host is concerned: without the user's
// certificate, with a cookie.
type tab struct {
	t      *testing.T
	server string
	client *http.Client
	key    string // of its session
}

// open signs a tab in as a user of no group, or as the administrator.
func open(t *testing.T, serving host.Serving, as string) *tab {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", serving.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Impersonate.UserName = as
	if as != "" {
		cfg.Impersonate.Groups = []string{"system:authenticated"}
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	data, err := client.RESTClient().Post().AbsPath(console.CodesPath).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("ask for a code: %v: %s", err, data)
	}
	var answer struct{ Path string }
	if err := json.Unmarshal(data, &answer); err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	b := &tab{t, serving.URL, &http.Client{Transport: transport, Jar: jar}, "none"}
	_, code, _ := strings.Cut(answer.Path, "code=")
	got := b.ask(http.MethodPost, "/console/v1/session", `{"code":"`+code+`"}`)
	var session struct{ Key string }
	if err := json.NewDecoder(got.Body).Decode(&session); err != nil || session.Key == "" {
		t.Fatalf("sign in: %s, %v", got.Status, err)
	}
	b.key = session.Key
	return b
}

// ask asks as the pages do.
func (b *tab) ask(method, path, body string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.server+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set(console.Header, b.key)
	answer, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// frame waits for a stream's frame that has a text.
func (b *tab) frame(query url.Values, text string) string {
	b.t.Helper()
	answer := b.ask(http.MethodGet, "/console/v1/stream?"+query.Encode(), "")
	defer answer.Body.Close()
	defer time.AfterFunc(time.Minute, func() { answer.Body.Close() }).Stop()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return lines.Text()
		}
	}
	b.t.Fatalf("the stream %v ended: %s, %v", query, answer.Status, lines.Err())
	return ""
}

func (b *tab) text(path string) (status int, text string) {
	b.t.Helper()
	answer := b.ask(http.MethodGet, path, "")
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// TestConsoleShowsEachUserHisOwn has the administrator and a user of one namespace
// look at the same cluster.
func TestConsoleShowsEachUserHisOwn(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir())
	ctx := t.Context()
	if _, err := client.CoreV1().Nodes().Create(ctx, readyNode("n0"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"mine", "theirs"} {
		if _, err := client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		large := plainPod(namespace + "-large")
		large.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("64")}
		if _, err := client.CoreV1().Pods(namespace).Create(ctx, large, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	allow(ctx, t, client, "eve", "mine")

	admin := open(t, serving, "")
	if got := admin.frame(url.Values{"view": {"topology"}, "label": {"kubernetes.io/hostname"}}, "n0"); !strings.Contains(got, `"reset":true`) {
		t.Errorf("the first frame of the topology is %s", got)
	}
	if got := admin.frame(url.Values{"view": {"pending"}}, "Insufficient cpu"); !strings.Contains(got, `"pods":2`) {
		t.Errorf("the administrator sees waiting %s", got)
	}
	if code, got := admin.text("/api/v1/namespaces/theirs/pods/theirs-large/explain"); code != http.StatusOK || !strings.Contains(got, "PodFitsResources") {
		t.Errorf("explain = %d %s", code, got)
	}
	if code, _ := admin.text("/api/v1/secrets"); code != http.StatusUnauthorized {
		t.Errorf("a session asks for secrets: %d, want 401", code)
	}

	if got := admin.frame(url.Values{"view": {"services"}, "chosen": {"default/kubernetes"}}, "rows"); !strings.Contains(got, `"chosen":{`) {
		t.Errorf("the administrator sees the services %s", got)
	}
	if code, got := admin.text("/console/v1/service?namespace=default&name=kubernetes"); code != http.StatusOK || !strings.Contains(got, `"fronts":[{`) {
		t.Errorf("the report of the API's service = %d %s", code, got)
	}

	if code, got := admin.text("/console/v1/past?at=1"); code != http.StatusOK || !strings.Contains(got, `"n0"`) || !strings.Contains(got, `"oldest":1`) {
		t.Errorf("before the first decision = %d %s", code, got)
	}
	if code, got := admin.text("/console/v1/past"); code != http.StatusOK || !strings.Contains(got, `"now":true`) || !strings.Contains(got, "mine-large") || !strings.Contains(got, "theirs-large") {
		t.Errorf("now = %d %s", code, got)
	}
	if code, got := admin.text("/api/v1/namespaces/theirs/pods/theirs-large/explain?shape=columns"); code != http.StatusOK || !strings.Contains(got, `"names":["n0"]`) {
		t.Errorf("explain in columns = %d %s", code, got)
	}
	if code, got := admin.text("/console/v1/pod?namespace=theirs&name=theirs-large"); code != http.StatusOK || !strings.Contains(got, `"logs":true,"exec":false`) {
		t.Errorf("a pod, by a session that reads = %d %s", code, got)
	}

	eve := open(t, serving, "eve")
	if code, got := eve.text("/console/v1/session"); code != http.StatusOK || !strings.Contains(got, `"user":"eve"`) || !strings.Contains(got, `"topology":false`) || !strings.Contains(got, `"plan":false`) || !strings.Contains(got, `"time":false`) || strings.Contains(got, `"policies":true`) {
		t.Errorf("eve's session is %d %s", code, got)
	}
	if got := eve.frame(url.Values{"view": {"pending"}}, "Insufficient cpu"); strings.Contains(got, "large") || !strings.Contains(got, `"pods":1`) {
		t.Errorf("eve, who opens no reason, sees waiting %s", got)
	}
	open := "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
	if got := eve.frame(url.Values{"view": {"pending"}, "open": {open}}, "Insufficient cpu"); strings.Contains(got, "theirs") || !strings.Contains(got, "mine-large") {
		t.Errorf("eve sees waiting %s", got)
	}
	for _, view := range []string{"workloads", "services"} {
		if got := eve.frame(url.Values{"view": {view}}, "rows"); !strings.Contains(got, `"rows":[],"all":0`) {
			t.Errorf("eve sees of %s %s", view, got)
		}
	}
	if got := eve.frame(url.Values{"view": {"events"}}, "folds"); !strings.Contains(got, `"folds":[]`) {
		t.Errorf("eve sees the events %s", got)
	}
	for _, path := range []string{
		"/console/v1/service?namespace=default&name=kubernetes",
		"/console/v1/stream?view=topology", "/berth/v1/policies", "/apis/policy.berth.dev/v1alpha1/policies",
		"/api/v1/namespaces/theirs/pods/theirs-large/explain",
		"/api/v1/namespaces/theirs/pods/theirs-large/explain?decision=1", "/api/v1/namespaces/theirs/pods/theirs-large/log",
		"/console/v1/past", "/console/v1/pod?namespace=theirs&name=theirs-large", "/console/v1/pod?namespace=mine&name=mine-large",
	} {
		if code, got := eve.text(path); code != http.StatusForbidden {
			t.Errorf("eve asks for %s: %d %.200s, want 403", path, code, got)
		}
	}
	for _, path := range []string{"/berth/v1/plan", "/api/v1/namespaces/mine/pods?dryRun=All"} {
		if got := eve.ask(http.MethodPost, path, "{}"); got.StatusCode != http.StatusForbidden {
			t.Errorf("eve posts to %s: %s, want 403", path, got.Status)
		}
	}
	if got := eve.ask(http.MethodDelete, "/console/v1/session", ""); got.StatusCode != http.StatusNoContent {
		t.Errorf("sign out: %s", got.Status)
	}
	if code, _ := eve.text("/console/v1/session"); code != http.StatusUnauthorized {
		t.Errorf("after signing out: %d, want 401", code)
	}
}

// allow lets a user list and explain the pods of one namespace.
func allow(ctx context.Context, t *testing.T, client kubernetes.Interface, name, namespace string) {
	t.Helper()
	rules := []rbacv1.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/explain"}},
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}
	if _, err := client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
