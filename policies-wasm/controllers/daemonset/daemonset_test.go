package daemonset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/host/controller/controllertest"
)

type world = controllertest.World

// agent is a DaemonSet, and what else is said of it.
func agent(say ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	labels := map[string]string{"app": "agent"}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "default"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i:1"}}},
			},
		},
	}
	for _, s := range say {
		s(set)
	}
	return set
}

func image(name string) func(*appsv1.DaemonSet) {
	return func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.Containers[0].Image = name }
}

func on(label string) func(*appsv1.DaemonSet) {
	return func(s *appsv1.DaemonSet) {
		s.Spec.Template.Spec.NodeSelector = nil
		if label != "" {
			s.Spec.Template.Spec.NodeSelector = map[string]string{label: "yes"}
		}
	}
}

func onDelete(s *appsv1.DaemonSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }

func rolling(maxUnavailable, maxSurge string) func(*appsv1.DaemonSet) {
	u, m := intstr.Parse(maxUnavailable), intstr.Parse(maxSurge)
	return func(s *appsv1.DaemonSet) {
		s.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &u, MaxSurge: &m},
		}
	}
}

func play(t *testing.T, test func(*world)) {
	t.Helper()
	controllertest.Play(t, []string{"DaemonSet"}, test)
}

func machine(name string, say ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, s := range say {
		s(n)
	}
	return n
}

func labelled(key string) func(*v1.Node) { return func(n *v1.Node) { n.Labels[key] = "yes" } }

func tainted(key string, effect v1.TaintEffect) func(*v1.Node) {
	return func(n *v1.Node) { n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Effect: effect}) }
}

func nodes(w *world, count int) {
	for i := range count {
		w.Create("nodes", machine(fmt.Sprintf("n%d", i)))
	}
}

func begin(w *world, set *appsv1.DaemonSet) {
	w.Create("daemonsets.apps", set)
	w.Wait(time.Minute)
}

func change(w *world, say ...func(*appsv1.DaemonSet)) {
	w.T.Helper()
	controllertest.Change(w, "daemonsets.apps", "", "agent", func(s *appsv1.DaemonSet) {
		for _, c := range say {
			c(s)
		}
	})
	w.Wait(time.Minute)
}

func get(w *world) *appsv1.DaemonSet {
	return controllertest.Get[*appsv1.DaemonSet](w, "daemonsets.apps", "agent")
}

func podsOn(w *world, node string) (found []*v1.Pod) {
	for _, p := range controllertest.List[*v1.Pod](w, "pods") {
		if p.Spec.NodeName == node {
			found = append(found, p)
		}
	}
	return found
}

// placed tells of each pod its node and image.
func placed(w *world) string {
	var all []string
	for _, p := range controllertest.List[*v1.Pod](w, "pods") {
		all = append(all, p.Spec.NodeName+" "+p.Spec.Containers[0].Image)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestEachNodeHasItsPod(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 3)
		begin(w, agent())
		want(t, "pods", placed(w), "n0 i:1, n1 i:1, n2 i:1")
		wantStatus := appsv1.DaemonSetStatus{
			CurrentNumberScheduled: 3, DesiredNumberScheduled: 3, NumberReady: 3, UpdatedNumberScheduled: 3, NumberAvailable: 3, ObservedGeneration: 1,
		}
		if diff := cmp.Diff(wantStatus, get(w).Status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		p := podsOn(w, "n1")[0]
		revisions := controllertest.List[*appsv1.ControllerRevision](w, "controllerrevisions.apps")
		if len(revisions) != 1 || revisions[0].Name != "agent-"+p.Labels[revisionLabel] || revisions[0].Labels[revisionLabel] != p.Labels[revisionLabel] {
			t.Errorf("revisions %v, pod's label %s", revisions, p.Labels[revisionLabel])
		}
		if !strings.HasPrefix(p.Name, "agent-") || metav1.GetControllerOf(p) == nil || len(p.Spec.Tolerations) < 6 {
			t.Errorf("pod is %+v %+v", p.ObjectMeta, p.Spec)
		}
		for _, e := range w.Events() {
			if !strings.HasPrefix(e, "agent Normal SuccessfulCreate: Created pod: agent-") {
				t.Errorf("event %q", e)
			}
		}

		w.Create("nodes", machine("n9"))
		w.Wait(time.Second)
		want(t, "with another node", placed(w), "n0 i:1, n1 i:1, n2 i:1, n9 i:1")
		w.Delete("pods", podsOn(w, "n0")[0].Name, nil)
		w.Wait(time.Second)
		want(t, "with one deleted", placed(w), "n0 i:1, n1 i:1, n2 i:1, n9 i:1")
	})
}

func TestNodesAreSelected(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.Create("nodes", machine("a", labelled("fast")))
		w.Create("nodes", machine("b"))
		begin(w, agent(on("fast")))
		want(t, "pods", placed(w), "a i:1")
		for name, has := range map[string]bool{"a": false, "b": true} {
			relabel(w, name, has)
		}
		want(t, "after the labels moved", placed(w), "b i:1")
	})
}

func relabel(w *world, name string, fast bool) {
	w.T.Helper()
	controllertest.ChangeNode(w, name, func(n *v1.Node) {
		n.Labels = map[string]string{}
		if fast {
			n.Labels["fast"] = "yes"
		}
	})
	w.Wait(time.Minute)
}

func TestTaints(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.Create("nodes", machine("free"))
		w.Create("nodes", machine("ill", tainted("node.kubernetes.io/not-ready", v1.TaintEffectNoExecute), tainted("node.kubernetes.io/disk-pressure", v1.TaintEffectNoSchedule)))
		w.Create("nodes", machine("kept", tainted("mine", v1.TaintEffectNoSchedule)))
		w.Create("nodes", machine("later"))
		begin(w, agent())
		want(t, "pods", placed(w), "free i:1, ill i:1, later i:1")
		taint := func(effect v1.TaintEffect) {
			controllertest.ChangeNode(w, "later", func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "mine", Effect: effect}} })
			w.Wait(time.Minute)
		}
		taint(v1.TaintEffectNoSchedule)
		want(t, "one stays", placed(w), "free i:1, ill i:1, later i:1")
		if s := get(w).Status; s.DesiredNumberScheduled != 2 || s.NumberMisscheduled != 1 {
			t.Errorf("status %+v, want 2 desired and 1 misplaced", s)
		}
		taint(v1.TaintEffectNoExecute)
		want(t, "and goes", placed(w), "free i:1, ill i:1")
	})
}

func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 3)
		begin(w, agent(rolling("1", "0")))
		w.Start(controllertest.Running)
		change(w, image("i:2"))
		if got := strings.Count(placed(w), "i:2"); got != 1 {
			t.Errorf("%d pods are new while one does not get ready, want 1", got)
		}
		w.Start(controllertest.Ready)
		w.SetPods(nil, controllertest.Ready)
		w.Wait(time.Minute)
		want(t, "at last", placed(w), "n0 i:2, n1 i:2, n2 i:2")
		if s := get(w).Status; s.UpdatedNumberScheduled != 3 || s.NumberUnavailable != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestSurge(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 3)
		begin(w, agent(rolling("0", "1")))
		w.Start(controllertest.Running)
		change(w, image("i:2"))
		if got := placed(w); strings.Count(got, "i:2") != 1 || strings.Count(got, "i:1") != 3 {
			t.Errorf("while the first does not get ready: %s, want it beside 3 others", got)
		}
		w.Start(controllertest.Ready)
		w.SetPods(nil, controllertest.Ready)
		w.Wait(time.Minute)
		want(t, "at last", placed(w), "n0 i:2, n1 i:2, n2 i:2")
	})
}

func TestOnDelete(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 2)
		begin(w, agent(onDelete))
		change(w, image("i:2"))
		want(t, "changed", placed(w), "n0 i:1, n1 i:1")
		w.Delete("pods", podsOn(w, "n1")[0].Name, nil)
		w.Wait(time.Minute)
		want(t, "deleted", placed(w), "n0 i:1, n1 i:2")
	})
}

func TestRollBackKeepsOneRevisionATemplate(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 1)
		begin(w, agent())
		change(w, image("i:2"))
		change(w, image("i:1"))
		var got []string
		for _, r := range controllertest.List[*appsv1.ControllerRevision](w, "controllerrevisions.apps") {
			got = append(got, fmt.Sprintf("%d %v", r.Revision, r.Labels[revisionLabel] == podsOn(w, "n0")[0].Labels[revisionLabel]))
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"2 false", "3 true"}, got); diff != "" {
			t.Errorf("revisions, and which is the pod's (-want +got):\n%s", diff)
		}
	})
}

// What stands beside the creation of a revision is stored where that is refused.
func TestNothingGoesForARevisionThatIsRefused(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		limit := int32(1)
		nodes(w, 2)
		begin(w, agent(rolling("1", "0"), func(s *appsv1.DaemonSet) { s.Spec.RevisionHistoryLimit = &limit }))
		change(w, image("i:2"))
		w.Refuse("controllerrevisions.apps", "exceeded quota")
		none := int32(0)
		change(w, image("i:3"), func(s *appsv1.DaemonSet) { s.Spec.RevisionHistoryLimit = &none })
		want(t, "pods", placed(w), "n0 i:2, n1 i:2")
		if n := len(controllertest.List[*appsv1.ControllerRevision](w, "controllerrevisions.apps")); n != 2 {
			t.Errorf("%d revisions are left, want 2", n)
		}
		w.Refuse("controllerrevisions.apps", "")
		w.Wait(time.Hour)
		want(t, "pods at last", placed(w), "n0 i:3, n1 i:3")
	})
}

func TestFailedPodsAreReplacedMoreAndMoreSlowly(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 1)
		w.Start(controllertest.Ended(1))
		w.Create("daemonsets.apps", agent())
		var made []int64
		start := time.Now()
		for range 30 * 10 {
			w.Wait(100 * time.Millisecond)
			n := 0
			for _, e := range w.Events() {
				if strings.HasPrefix(e, "agent Normal SuccessfulCreate") {
					n++
				}
			}
			for range n {
				made = append(made, int64(time.Since(start).Round(time.Second)/time.Second))
			}
		}
		if diff := cmp.Diff([]int64{0, 0, 1, 3, 7, 15}, made); diff != "" {
			t.Errorf("seconds at which pods were made (-want +got):\n%s", diff)
		}
		w.Start(controllertest.Ready)
		w.Wait(20 * time.Minute)
		if list := podsOn(w, "n0"); len(list) != 1 || list[0].Annotations[failures] == "" || list[0].Status.Phase != v1.PodRunning {
			t.Errorf("pods at last: %+v", list)
		}
	})
}

func TestSucceededPodsAreReplaced(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 1)
		begin(w, agent())
		was := podsOn(w, "n0")[0]
		w.Events()
		w.SetPod(was.Name, controllertest.Ended(0))
		w.Wait(time.Minute)
		list := podsOn(w, "n0")
		if len(list) != 1 || list[0].UID == was.UID || list[0].Annotations[failures] != "" {
			t.Errorf("pods %+v", list)
		}
		if e := w.Events(); !slices.Contains(e, "agent Normal SucceededDaemonPod: Found succeeded daemon pod default/"+was.Name+" on node n0, will try to delete it") {
			t.Errorf("events %q", e)
		}
	})
}

func TestMinReadySeconds(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 1)
		w.Create("daemonsets.apps", agent(func(s *appsv1.DaemonSet) { s.Spec.MinReadySeconds = 30 }))
		w.Wait(20 * time.Second)
		if s := get(w).Status; s.NumberReady != 1 || s.NumberAvailable != 0 || s.NumberUnavailable != 1 {
			t.Errorf("status after 20 s is %+v", s)
		}
		w.Wait(15 * time.Second)
		if s := get(w).Status; s.NumberAvailable != 1 {
			t.Errorf("status after 35 s is %+v", s)
		}
	})
}

func TestConditionsOfOthersStay(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 1)
		begin(w, agent())
		controllertest.Change(w, "daemonsets.apps", "status", "agent", func(s *appsv1.DaemonSet) {
			s.Status.Conditions = []appsv1.DaemonSetCondition{{Type: "Mine", Status: v1.ConditionTrue, Message: "a \"b\""}}
		})
		w.Create("nodes", machine("n5"))
		w.Wait(time.Minute)
		if s := get(w).Status; s.NumberReady != 2 || len(s.Conditions) != 1 || s.Conditions[0].Message != "a \"b\"" {
			t.Errorf("status %+v", s)
		}
	})
}

// A revision of the set's own may have the name of the next one, but other data.
func TestANameThatARevisionHasIsNotTakenTwice(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		nodes(w, 1)
		begin(w, agent(rolling("1", "0")))
		revisions := func() []*appsv1.ControllerRevision {
			return controllertest.List[*appsv1.ControllerRevision](w, "controllerrevisions.apps")
		}
		first := revisions()[0]
		change(w, image("i:2"))
		var second *appsv1.ControllerRevision
		for _, r := range revisions() {
			if r.Name != first.Name {
				second = r
			}
		}
		change(w, image("i:1"))
		w.Delete("controllerrevisions.apps", second.Name, nil)
		other := second.DeepCopy()
		other.UID, other.ResourceVersion, other.Data, other.Revision = "", "", first.Data, 7
		w.Create("controllerrevisions.apps", other)
		w.Wait(time.Second)
		if n := len(revisions()); n != 2 {
			t.Errorf("of two revisions with the same data %d are there after a second, want both", n)
		}
		w.Wait(time.Minute)
		if left := revisions(); len(left) != 1 || left[0].Name != second.Name {
			t.Fatalf("of two revisions with the same data %d are left, want the newer", len(left))
		}
		change(w, image("i:2"))
		w.Wait(time.Minute)
		want(t, "at last", placed(w), "n0 i:2")
		if n := len(revisions()); n != 2 || *get(w).Status.CollisionCount != 1 {
			t.Errorf("%d revisions, %d collisions, want 2 and 1", n, *get(w).Status.CollisionCount)
		}
	})
}
