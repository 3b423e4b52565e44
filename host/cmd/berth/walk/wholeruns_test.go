package walk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// kept are the controllers that a whole run is about: Berth's policies, and
// kube-controller-manager's names for the same.
var kept = map[string]string{
	"Deployment": "deployment-controller", "ReplicaSet": "replicaset-controller", "StatefulSet": "statefulset-controller",
	"DaemonSet": "daemonset-controller", "Job": "job-controller", "EndpointSlice": "endpointslice-controller", "Endpoints": "endpoints-controller",
}

const (
	runNodes               = 4
	webPods                = 6 // of the Deployment; 2 more and 1 fewer while it rolls
	mostWeb, leastWeb      = 8, 5
	dbPods, moreDB, jobEnd = 3, 5, 4
)

// TestWholeRuns has workloads made, rolled out, scaled and rolled back. At no
// revision are there more pods than surge allows, fewer available ones than there
// must be, or one of a StatefulSet before its turn. A campaign does the same with
// kube-controller-manager in the place of Berth's controllers, on the same API and
// nodes, and compares what is there in the end.
func TestWholeRuns(t *testing.T) {
	t.Parallel()
	ours := wholeRun(t, false)
	if !campaign() {
		return
	}
	if diff := cmp.Diff(wholeRun(t, true), ours); diff != "" {
		t.Errorf("in the end there is (-kube-controller-manager +Berth):\n%s", diff)
	}
}

// wholeRun plays the scenario and returns what there is in the end.
func wholeRun(t *testing.T, byManager bool) map[string]string {
	t.Helper()
	r := &whole{cluster: newCluster(t, "--listen", "127.0.0.1:0", "--agent", "none", "--simulate", fmt.Sprint(runNodes)), known: map[types.UID]*v1.Pod{}}
	if byManager {
		r.manage(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	judged := make(chan error, 1)
	go func() { judged <- r.judge(ctx) }()
	r.make(t)
	r.change(t)
	cancel()
	if err := <-judged; err != nil {
		t.Fatal(err)
	}
	if r.seen < 50 {
		t.Errorf("%d revisions of pods were judged", r.seen)
	}
	if len(r.wrong) > 0 {
		t.Errorf("of %d revisions %d are wrong: %q", r.seen, len(r.wrong), r.wrong[:min(len(r.wrong), 10)])
	}
	return r.end(t)
}

// whole is one such run. Its watch alone reads what is below known.
type whole struct {
	*cluster
	known map[types.UID]*v1.Pod
	seen  int
	full  bool // the Deployment had all its pods once
	wrong []string
}

// manage ends Berth's controllers and runs kube-controller-manager for them.
func (r *whole) manage(t *testing.T) {
	t.Helper()
	var theirs []string
	for policy, controller := range kept {
		r.must(t, r.kubectl, "delete", "policies.policy.berth.dev", policy)
		theirs = append(theirs, controller)
	}
	slices.Sort(theirs)
	outside(t, "kube-controller-manager", "--kubeconfig="+r.kubeconfig(), "--leader-elect=false", "--secure-port=0", "--controllers="+strings.Join(theirs, ","))
}

func labeled(app string) map[string]string { return map[string]string{"app": app} }

func templateOf(app string) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labeled(app)}, Spec: smallPod("", nil).Spec}
}

// make makes all workloads, and waits until they are as they are to be.
func (r *whole) make(t *testing.T) {
	t.Helper()
	selector := func(app string) *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: labeled(app)} }
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	apps, create := r.client.AppsV1(), metav1.CreateOptions{}
	made := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	made(r.client.CoreV1().Services("default").Create(t.Context(), &v1.Service{
		ObjectMeta: named("web"), Spec: v1.ServiceSpec{Selector: labeled("web"), Ports: []v1.ServicePort{{Port: 80}}},
	}, create))
	rolling := appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt32(mostWeb - webPods)), MaxUnavailable: ptr.To(intstr.FromInt32(webPods - leastWeb))}
	made(apps.Deployments("default").Create(t.Context(), &appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](webPods), Selector: selector("web"), Template: templateOf("web"),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &rolling},
	}}, create))
	made(apps.StatefulSets("default").Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: named("db"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](dbPods), Selector: selector("db"), Template: templateOf("db")},
	}, create))
	made(apps.DaemonSets("default").Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: named("agent"), Spec: appsv1.DaemonSetSpec{Selector: selector("agent"), Template: templateOf("agent")},
	}, create))
	job := &batchv1.Job{ObjectMeta: named("sum"), Spec: batchv1.JobSpec{
		Completions: ptr.To[int32](jobEnd), Parallelism: ptr.To[int32](2), CompletionMode: ptr.To(batchv1.IndexedCompletion),
		Template: v1.PodTemplateSpec{Spec: smallPod("", nil).Spec},
	}}
	job.Spec.Template.Spec.RestartPolicy = v1.RestartPolicyNever
	made(r.client.BatchV1().Jobs("default").Create(t.Context(), job, create))
	r.rolled(t)
	eventually(t, "the Job is complete", func() bool {
		r.endJobs(t)
		j, err := r.client.BatchV1().Jobs("default").Get(t.Context(), "sum", metav1.GetOptions{})
		return err == nil && j.Status.CompletionTime != nil
	})
}

// change rolls all out twice, scales, and goes back.
func (r *whole) change(t *testing.T) {
	t.Helper()
	for _, image := range []string{"example.test/app:2", "example.test/app:3"} {
		for _, what := range []string{"deployment/web", "statefulset/db", "daemonset/agent"} {
			r.must(t, r.kubectl, "set", "image", what, "c="+image)
		}
		r.rolled(t)
	}
	r.must(t, r.kubectl, "scale", "statefulset/db", fmt.Sprintf("--replicas=%d", moreDB))
	r.must(t, r.kubectl, "rollout", "undo", "deployment/web")
	r.must(t, r.kubectl, "rollout", "undo", "daemonset/agent")
	r.rolled(t)
	r.must(t, r.kubectl, "scale", "statefulset/db", "--replicas=2")
	r.rolled(t)
	eventually(t, "only what is wanted is there", func() bool {
		pods, err := r.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app"})
		slices, err2 := r.client.DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
		return err == nil && err2 == nil && len(pods.Items) == webPods+2+runNodes && len(slices.Items) == 1 && len(slices.Items[0].Endpoints) == webPods
	})
}

func (r *whole) rolled(t *testing.T) {
	t.Helper()
	for _, what := range []string{"deployment/web", "statefulset/db", "daemonset/agent"} {
		r.must(t, r.kubectl, "rollout", "status", what, "--timeout=2m")
	}
}

// endJobs has the pods of Jobs that run succeed.
func (r *whole) endJobs(t *testing.T) {
	t.Helper()
	pods, err := r.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Status.Phase == v1.PodRunning {
			_, _ = r.client.CoreV1().Pods("default").Patch(t.Context(), p.Name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		}
	}
}

// judge looks at the pods at each revision until ctx ends.
func (r *whole) judge(ctx context.Context) error {
	events, err := r.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		p, ok := e.Object.(*v1.Pod)
		if ctx.Err() != nil {
			break
		}
		if !ok {
			return fmt.Errorf("the watch ends with %v", e.Object)
		}
		if r.known[p.UID] = p; e.Type == "DELETED" {
			delete(r.known, p.UID)
		}
		r.seen++
		for _, what := range r.broken() {
			r.wrong = append(r.wrong, fmt.Sprintf("%s (%s %s)", what, p.ResourceVersion, p.Name))
		}
	}
	return nil
}

// broken is what is not as it must always be.
func (r *whole) broken() (all []string) {
	web, available := 0, 0
	ready, onNode := map[string]bool{}, map[string]int{}
	for _, p := range r.known {
		if p.DeletionTimestamp != nil {
			continue
		}
		switch p.Labels["app"] {
		case "web":
			web++
			if isReady(p) {
				available++
			}
		case "db":
			if _, twice := ready[p.Name]; twice {
				all = append(all, "two pods are "+p.Name)
			}
			ready[p.Name] = isReady(p)
		case "agent":
			onNode[p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]]++
		}
	}
	r.full = r.full || available == webPods
	if web > mostWeb || r.full && available < leastWeb {
		all = append(all, fmt.Sprintf("the Deployment has %d pods, of which %d are available", web, available))
	}
	for node, n := range onNode {
		if n > 1 {
			all = append(all, fmt.Sprintf("node %s has %d pods of the DaemonSet", node, n))
		}
	}
	return append(all, inOrder(ready)...)
}

// inOrder wants all pods of a StatefulSet before one that is not ready yet to be
// ready: it is the only one.
func inOrder(ready map[string]bool) (wrong []string) {
	waits := 0
	for _, is := range ready {
		if !is {
			waits++
		}
	}
	if waits > 1 {
		wrong = append(wrong, fmt.Sprintf("%d of the StatefulSet's pods wait at once: %v", waits, ready))
	}
	return wrong
}

// end is what there is by name, without what is of the moment. Of several with names
// that the API made up, each stands for its text.
func (r *whole) end(t *testing.T) map[string]string {
	t.Helper()
	all, texts := map[string]string{}, map[string][]string{}
	options := metav1.ListOptions{}
	for kind, list := range map[string]func() (runtime.Object, error){
		"Deployment": func() (runtime.Object, error) {
			return r.client.AppsV1().Deployments("default").List(t.Context(), options)
		},
		"ReplicaSet": func() (runtime.Object, error) {
			return r.client.AppsV1().ReplicaSets("default").List(t.Context(), options)
		},
		"StatefulSet": func() (runtime.Object, error) {
			return r.client.AppsV1().StatefulSets("default").List(t.Context(), options)
		},
		"DaemonSet": func() (runtime.Object, error) {
			return r.client.AppsV1().DaemonSets("default").List(t.Context(), options)
		},
		"ControllerRevision": func() (runtime.Object, error) {
			return r.client.AppsV1().ControllerRevisions("default").List(t.Context(), options)
		},
		"Job": func() (runtime.Object, error) { return r.client.BatchV1().Jobs("default").List(t.Context(), options) },
		"Pod": func() (runtime.Object, error) { return r.client.CoreV1().Pods("default").List(t.Context(), options) },
		"EndpointSlice": func() (runtime.Object, error) {
			return r.client.DiscoveryV1().EndpointSlices("default").List(t.Context(), options)
		},
	} {
		objects, err := list()
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		var read struct{ Items []map[string]any }
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		for _, o := range read.Items {
			name, _ := o["metadata"].(map[string]any)["name"].(string)
			text, err := json.MarshalIndent(lasting(kind, o), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			name = kind + " " + strings.Trim(madeUp.ReplaceAllString(name+`"`, `$1-…"`), `"`)
			texts[name] = append(texts[name], madeUp.ReplaceAllString(string(text), `$1-…"`))
		}
	}
	for name, list := range texts {
		slices.Sort(list)
		for i, text := range list {
			all[fmt.Sprint(name, " ", i)] = text
		}
	}
	return all
}

// madeUp are names that the API made up.
var madeUp = regexp.MustCompile(`((?:web-[a-z0-9]{8,10}|web|agent|sum-[0-9]))-[bcdfghjklmnpqrstvwxz2456789]{5}"`)

// momentary are fields that differ from one run to the next: times, identities, and
// how many steps it took.
var momentary = []string{
	"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "observedGeneration", "selfLink",
	"lastTransitionTime", "lastUpdateTime", "lastProbeTime", "startTime", "completionTime", "startedAt", "finishedAt",
	"controller-uid", "batch.kubernetes.io/controller-uid", "endpoints.kubernetes.io/last-change-trigger-time",
	"nodeName", "podIP", "podIPs", "hostIP", "hostIPs", "addresses", "containerID", "volumes", "volumeMounts", "matchFields",
}

// lasting is a value without them. Endpoints are alike but for their addresses, and
// pods are told by what they are, not by how they were completed.
func lasting(kind string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if slices.Contains(momentary, key) || kind == "Pod" && key == "spec" || kind == "EndpointSlice" && (key == "targetRef" || key == "zone") {
				delete(value, key)
				continue
			}
			value[key] = lasting(kind, inner)
		}
	case []any:
		for i := range value {
			value[i] = lasting(kind, value[i])
		}
	}
	return value
}
