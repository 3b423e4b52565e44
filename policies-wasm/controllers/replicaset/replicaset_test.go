package replicaset

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func parent(replicas, minReady int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "rs", Generation: 4},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, MinReadySeconds: minReady, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "tier": "front"}, Annotations: map[string]string{"note": "a \"b\"\n"}},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i:1", Args: []string{"<&>"}}}},
			},
		},
	}
}

// child is a pod: its name, and what is said about it.
func child(name string, say ...func(*v1.Pod)) *v1.Pod {
	yes := true
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"app": "web"},
			CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", UID: "rs", Kind: "ReplicaSet", Name: "web", Controller: &yes}},
		},
		Spec:   v1.PodSpec{NodeName: "n-" + name},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	ready(time.Hour)(p)
	for _, s := range say {
		s(p)
	}
	return p
}

func ready(since time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}
	}
}

func notReady(p *v1.Pod)           { p.Status.Conditions = nil }
func pending(p *v1.Pod)            { p.Status.Phase = v1.PodPending }
func failed(p *v1.Pod)             { p.Status.Phase = v1.PodFailed }
func unassigned(p *v1.Pod)         { p.Spec.NodeName, p.Status.Phase = "", v1.PodPending }
func orphan(p *v1.Pod)             { p.OwnerReferences = nil }
func otherLabels(p *v1.Pod)        { p.Labels = map[string]string{"app": "db"} }
func going(p *v1.Pod)              { t := metav1.NewTime(now); p.DeletionTimestamp = &t }
func on(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }
func cost(c string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations = map[string]string{"controller.kubernetes.io/pod-deletion-cost": c} }
}
func restarted(n int32) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: n}} }
}
func created(ago time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-ago)) }
}

func ask(t *testing.T, rs *appsv1.ReplicaSet, pods ...*v1.Pod) *abi.ReconcileResult {
	t.Helper()
	var others []store.Object
	for _, p := range pods {
		others = append(others, p)
	}
	return controllertest.Ask(t, "ReplicaSet", now, rs, others...)
}

func TestReplicaSet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		rs       *appsv1.ReplicaSet
		pods     []*v1.Pod
		creates  int64
		deletes  []string
		adopts   []string
		releases []string
	}{
		{name: "none yet", rs: parent(3, 0), creates: 3},
		{name: "as many as wanted", rs: parent(1, 0), pods: []*v1.Pod{child("a")}},
		{name: "pods that ended, or are going, don't count", rs: parent(2, 0), pods: []*v1.Pod{child("a", failed), child("b", going)}, creates: 2},
		{name: "an orphan that matches is adopted", rs: parent(1, 0), pods: []*v1.Pod{child("a", orphan)}, adopts: []string{"a"}},
		{name: "an orphan that does not match is left alone", rs: parent(0, 0), pods: []*v1.Pod{child("a", orphan, otherLabels)}},
		{name: "a child that no longer matches is released", rs: parent(1, 0), pods: []*v1.Pod{child("a", otherLabels)}, releases: []string{"a"}, creates: 1},
		{name: "500 at once at most", rs: parent(2000, 0), creates: 500},
		{name: "scaled to nothing", rs: parent(0, 0), pods: []*v1.Pod{child("a"), child("b")}, deletes: []string{"a", "b"}},
		{name: "unassigned goes before pending", rs: parent(2, 0), pods: []*v1.Pod{child("a"), child("b", pending), child("c", unassigned)}, deletes: []string{"c"}},
		{name: "pending goes before running", rs: parent(1, 0), pods: []*v1.Pod{child("a", notReady), child("b", pending)}, deletes: []string{"b"}},
		{name: "not ready goes before ready", rs: parent(1, 0), pods: []*v1.Pod{child("a"), child("b", notReady)}, deletes: []string{"b"}},
		{name: "the cheaper goes first", rs: parent(1, 0), pods: []*v1.Pod{child("a", cost("10")), child("b", cost("-3"))}, deletes: []string{"b"}},
		{name: "the doubled up goes first", rs: parent(2, 0), pods: []*v1.Pod{child("a", on("x")), child("b", on("y")), child("c", on("y"))}, deletes: []string{"b"}},
		{name: "the shorter ready goes first", rs: parent(1, 0), pods: []*v1.Pod{child("a", ready(time.Hour)), child("b", ready(time.Minute))}, deletes: []string{"b"}},
		{name: "ages of one power of two are left to the UIDs", rs: parent(1, 0), pods: []*v1.Pod{child("b", ready(65*time.Minute)), child("a", ready(70*time.Minute))}, deletes: []string{"a"}},
		{name: "the more often restarted goes first", rs: parent(1, 0), pods: []*v1.Pod{child("a", restarted(1)), child("b", restarted(9))}, deletes: []string{"b"}},
		{name: "the younger goes first", rs: parent(1, 0), pods: []*v1.Pod{child("a", created(9*time.Hour)), child("b")}, deletes: []string{"b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out := ask(t, tt.rs, tt.pods...)
			var creates int64
			for _, c := range out.Create {
				creates += c.Count
			}
			if creates != tt.creates {
				t.Errorf("creates %d, want %d", creates, tt.creates)
			}
			var deleted []string
			for _, d := range out.Delete {
				deleted = append(deleted, d.UID)
			}
			for _, c := range []struct {
				what      string
				want, got []string
			}{{"deletes", tt.deletes, deleted}, {"adopts", tt.adopts, out.Adopt}, {"releases", tt.releases, out.Release}} {
				if diff := cmp.Diff(c.want, c.got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.what, diff)
				}
			}
		})
	}
}

func TestAReplicaSetThatGoesDoesNothing(t *testing.T) {
	t.Parallel()
	rs := parent(3, 0)
	at := metav1.NewTime(now)
	rs.DeletionTimestamp = &at
	out := ask(t, rs, child("a", orphan), child("b", otherLabels))
	if len(out.Create)+len(out.Adopt)+len(out.Release)+len(out.Delete) > 0 {
		t.Errorf("outcome %+v, want no action", out)
	}
}

func TestStatusCounts(t *testing.T) {
	t.Parallel()
	rs := parent(3, 60)
	rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: "Other", Status: v1.ConditionTrue, Message: "x"}, {Type: appsv1.ReplicaSetReplicaFailure, Status: v1.ConditionTrue, Message: "over"}}
	full := child("a")
	full.Labels["tier"] = "front"
	out := ask(t, rs, full, child("b", ready(20*time.Second)), child("c", notReady))
	got := controllertest.Status[appsv1.ReplicaSetStatus](t, out)
	want := appsv1.ReplicaSetStatus{
		Replicas: 3, FullyLabeledReplicas: 1, ReadyReplicas: 2, AvailableReplicas: 1, ObservedGeneration: 4, TerminatingReplicas: ptr.To[int32](0),
		Conditions: rs.Status.Conditions[:1],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if again := time.Duration(out.RequeueAfterNanos); again != 40*time.Second {
		t.Errorf("ask again in %v, want 40s", again)
	}
}

func TestChildrenAreTheTemplate(t *testing.T) {
	t.Parallel()
	controllertest.Play(t, []string{"ReplicaSet"}, func(w *controllertest.World) {
		rs := parent(3, 0)
		rs.UID = ""
		w.Create("replicasets.apps", rs)
		w.Wait(time.Second)
		pods := controllertest.List[*v1.Pod](w, "pods")
		if len(pods) != 3 {
			t.Fatalf("%d pods, want 3: %q", len(pods), w.Events())
		}
		got := pods[0]
		if !strings.HasPrefix(got.Name, "web-") || !maps.Equal(got.Labels, parent(3, 0).Spec.Template.Labels) || !maps.Equal(got.Annotations, parent(3, 0).Spec.Template.Annotations) || got.Spec.Containers[0].Args[0] != "<&>" {
			t.Errorf("pod is %+v %+v", got.ObjectMeta, got.Spec)
		}
		if status := controllertest.Get[*appsv1.ReplicaSet](w, "replicasets.apps", "web").Status; status.ReadyReplicas != 3 {
			t.Errorf("status %+v, want 3 ready", status)
		}
	})
}

func TestAReplicationControllerKeepsItsPods(t *testing.T) {
	t.Parallel()
	controllertest.Play(t, []string{"ReplicationController"}, func(w *controllertest.World) {
		template := parent(1, 0).Spec.Template
		w.Create("replicationcontrollers", &v1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
			Spec:       v1.ReplicationControllerSpec{Replicas: ptr.To[int32](3), Selector: map[string]string{"app": "web"}, Template: &template},
		})
		w.Wait(time.Second)
		get := func() v1.ReplicationControllerStatus {
			return controllertest.Get[*v1.ReplicationController](w, "replicationcontrollers", "web").Status
		}
		if s := get(); s.Replicas != 3 || s.AvailableReplicas != 3 || s.FullyLabeledReplicas != 3 {
			t.Errorf("status %+v: %q", s, w.Events())
		}
		controllertest.Change(w, "replicationcontrollers", "", "web", func(rc *v1.ReplicationController) { rc.Spec.Replicas = ptr.To[int32](1) })
		w.Wait(time.Second)
		if s := get(); s.Replicas != 1 || len(controllertest.List[*v1.Pod](w, "pods")) != 1 {
			t.Errorf("status after it was scaled %+v", s)
		}
	})
}

// A status that somebody else writes is put right.
func TestAStatusOfOthersIsPutRight(t *testing.T) {
	t.Parallel()
	controllertest.Play(t, []string{"ReplicaSet"}, func(w *controllertest.World) {
		rs := parent(2, 0)
		rs.UID, rs.ResourceVersion = "", ""
		w.Create("replicasets.apps", rs)
		w.Wait(time.Minute)
		controllertest.Change(w, "replicasets.apps", "status", rs.Name, func(rs *appsv1.ReplicaSet) { rs.Status.ReadyReplicas, rs.Status.AvailableReplicas = 0, 0 })
		w.Wait(time.Minute)
		if rs := controllertest.Get[*appsv1.ReplicaSet](w, "replicasets.apps", rs.Name); rs.Status.ReadyReplicas != 2 || rs.Status.AvailableReplicas != 2 {
			t.Errorf("the status is %+v", rs.Status)
		}
	})
}
