package host_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/polltest"
)

// again asks for a past question.
func again(t *testing.T, s host.Serving, r *berthapi.ReconcileRequest) (*berthapi.Reconciled, string) {
	t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	code, text := ask(t, s, "POST", berthapi.ReconcilesPath, string(body))
	if code == http.StatusNotFound {
		return nil, text
	}
	out := new(berthapi.Reconciled)
	if err := json.Unmarshal([]byte(text), out); code != http.StatusOK || err != nil {
		t.Fatalf("%s at %s = %d %s", r.Name, r.At, code, text)
	}
	return out, text
}

// replayAll asks all questions about an object again, from the last to the first.
func replayAll(t *testing.T, s host.Serving, resource, name string) (n int, last string) {
	t.Helper()
	r := &berthapi.ReconcileRequest{Resource: resource, Namespace: "default", Name: name}
	for ; ; n++ {
		out, text := again(t, s, r)
		if out == nil {
			return n, text
		}
		if !out.Same || out.Failure != "" || len(out.Differs) > 0 {
			t.Errorf("%s %s at %s: %s", resource, name, out.At, text)
		}
		r.At = out.At.Add(-time.Nanosecond)
	}
}

// busy makes workloads and changes them, until all have come to rest.
func busy(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: plainPod("").Spec}
	apps := client.AppsV1()
	create := metav1.CreateOptions{}
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Name: "web"}
	check(client.CoreV1().Services("default").Create(t.Context(), &v1.Service{ObjectMeta: meta, Spec: v1.ServiceSpec{Selector: labels, Ports: []v1.ServicePort{{Port: 80}}}}, create))
	check(apps.Deployments("default").Create(t.Context(), &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](3), Selector: selector, Template: template}}, create))
	check(apps.StatefulSets("default").Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2), Selector: selector, Template: template, PodManagementPolicy: appsv1.ParallelPodManagement}}, create))
	check(apps.DaemonSets("default").Create(t.Context(), &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, create))
	check(client.BatchV1().Jobs("default").Create(t.Context(), jobOf("web", nil), create))
	check(client.BatchV1().CronJobs("default").Create(t.Context(), &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: jobOf("", nil).Spec}}}, create))
	finish(t, client)
	check(apps.Deployments("default").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":5,"template":{"metadata":{"labels":{"version":"2"}}}}}`), metav1.PatchOptions{}))
	check(apps.StatefulSets("default").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{}))
	finish(t, client)
	polltest.Until(t, "the Deployment is rolled out", func() bool {
		finish(t, client)
		d, err := apps.Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 5 && d.Status.UpdatedReplicas == 5
	})
}

// finish does what nodes do: pods are Running and Ready, those of Jobs succeed, and
// those that are deleted go.
func finish(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	pods := client.CoreV1().Pods("default")
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		status := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}],"podIPs":[{"ip":"10.0.0.9"}],"podIP":"10.0.0.9"}}`
		if p.Labels[batchv1.JobNameLabel] != "" {
			status = `{"status":{"phase":"Succeeded"}}`
		}
		switch {
		case p.DeletionTimestamp != nil:
			_ = pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		case p.Status.Phase == v1.PodPending && p.Spec.NodeName != "":
			_, _ = pods.Patch(t.Context(), p.Name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status") // it may be gone
		}
	}
}

// Whatever the built-in controllers were asked, they answer once more to the byte.
func TestQuestionsToControllersAreAskedAgain(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir())
	for i := range 3 {
		createNode(t, client, fmt.Sprint("n", i))
	}
	busy(t, client)
	sets, err := client.AppsV1().ReplicaSets("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) != 2 {
		t.Fatalf("there are %d ReplicaSets, %v", len(sets.Items), err)
	}
	objects := [][2]string{{"deployments", "web"}, {"statefulset", "web"}, {"ds", "web"}, {"job", "web"}, {"cronjobs.batch", "web"}, {"svc", "web"}}
	for _, s := range sets.Items {
		objects = append(objects, [2]string{"rs", s.Name})
	}
	all := 0
	for _, o := range objects {
		n, last := replayAll(t, serving, o[0], o[1])
		if n == 0 || !strings.Contains(last, "as far as the log reaches: the oldest question kept") {
			t.Errorf("%d questions about %s %s were asked again, and then: %s", n, o[0], o[1], last)
		}
		all += n
	}
	if all < 30 {
		t.Errorf("%d questions were asked again", all)
	}
	if code, text := ask(t, serving, "POST", berthapi.ReconcilesPath, `{"resource":"deployments","namespace":"default","name":"none"}`); code != http.StatusNotFound || !strings.Contains(text, "no controller was asked about deployments.apps default/none") {
		t.Errorf("a question that was never asked = %d %s", code, text)
	}
}

// A question that has left the log is said to have.
func TestALogThatIsTooSmallSaysWhatItHolds(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir(), func(c *host.Config) { c.LogBytes = 64 << 10 })
	createNode(t, client, "n")
	busy(t, client)
	_, text := again(t, serving, &berthapi.ReconcileRequest{Resource: "statefulsets", Namespace: "default", Name: "web", At: time.Unix(1, 0)})
	if !strings.Contains(text, "start the host with --record DIR to keep all, or with a larger --log-memory") {
		t.Errorf("a question from before the log: %s", text)
	}
}

// A host that records knows after a restart what its controllers were asked, also
// one whose policy and module are gone.
func TestRecordedQuestionsAreAskedAgainAfterARestart(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), t.TempDir()
	recording := func(c *host.Config) { c.Record = kept }
	client, serving, stop := start(t, dir, recording)
	for i := range 3 {
		createNode(t, client, fmt.Sprint("n", i))
	}
	grant(t, client, "maker", "cluster-admin", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "maker"})
	module := uploaded(t, client, maker("one"))
	pushMaker(t, serving, "maker", fmt.Sprintf(`"module":%q`, module))
	waitForPolicy(t, serving, "maker", `"set":`)
	parents(t, client, "past")
	makes(t, client, []string{"past"}, "one")
	busy(t, client)
	for _, path := range []string{"policies/maker", "modules/" + module} {
		if code, text := ask(t, serving, "DELETE", "/apis/policy.berth.dev/v1alpha1/"+path, ""); code != http.StatusOK {
			t.Fatalf("DELETE %s = %d %s", path, code, text)
		}
	}
	before, _ := replayAll(t, serving, "deployments", "web")
	if out, text := again(t, serving, &berthapi.ReconcileRequest{Resource: "podtemplates", Namespace: "past", Name: "parent"}); out == nil || !out.Same {
		t.Errorf("the maker's question before the restart: %s", text)
	}
	stop()
	_, serving, _ = start(t, dir, recording)
	if after, last := replayAll(t, serving, "deployments", "web"); after < before || !strings.Contains(last, "as far as the recording in "+kept+" tells") {
		t.Errorf("of %d questions about the Deployment %d are asked again after the restart, and then: %s", before, after, last)
	}
	out, text := again(t, serving, &berthapi.ReconcileRequest{Resource: "podtemplates", Namespace: "past", Name: "parent"})
	if out == nil || !out.Same || out.Policy != "maker" || len(out.Then) != 1 || !strings.Contains(out.Then[0], `"name":"one"`) {
		t.Errorf("the maker's question: %s", text)
	}
}

// Another module is asked what the one that answered was, and what differs is told.
func TestAnotherModuleIsAskedAPastQuestion(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	grant(t, admin, "maker", "cluster-admin", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "maker"})
	pushMaker(t, serving, "maker", fmt.Sprintf(`"module":%q`, uploaded(t, admin, maker("one"))))
	waitForPolicy(t, serving, "maker", `"set":`)
	parents(t, admin, "past")
	makes(t, admin, []string{"past"}, "one")
	request := &berthapi.ReconcileRequest{Resource: "podtemplates", Namespace: "past", Name: "parent"}
	out, _ := again(t, serving, request)
	if out == nil || !out.Same || out.Policy != "maker" || len(out.Then) != 1 || !strings.Contains(out.Then[0], `creates 1: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}`) {
		t.Fatalf("asked again: %+v", out)
	}
	request.Other = &trial.Variation{Wasm: maker("two")}
	out, text := again(t, serving, request)
	if out == nil || out.Same || len(out.Differs) != 2 || !strings.HasPrefix(out.Differs[0], "- creates 1: ") || !strings.Contains(out.Differs[1], `+ creates 1: {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two"}}`) {
		t.Errorf("another module: %s", text)
	}
	request.Other = &trial.Variation{Wasm: maker("")}
	if out, text = again(t, serving, request); out == nil || out.Same || !strings.Contains(out.FailureAgain, "unreachable") {
		t.Errorf("a module that traps: %s", text)
	}
	// The question is told to nobody who may not get the object.
	grant(t, admin, "reviewer", "berth:policy-reviewer", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "reviewer"})
	for user, want := range map[string]string{"nobody": "cannot post path", "reviewer": "you may not get podtemplates"} {
		err := impersonating(t, serving, user).CoreV1().RESTClient().Post().AbsPath(berthapi.ReconcilesPath).
			Body([]byte(`{"resource":"podtemplates","namespace":"past","name":"parent"}`)).Do(t.Context()).Error()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is told %v, want %q", user, err, want)
		}
	}
}
