package walk_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/explain"
)

// held keeps a pod that is deleted from going.
const held = "walk.example.com/held"

// TestAPreemptionIsReplayed has a pod preempt two, against a budget, while room
// is kept for it against others. Then the victims go, the policies change and the
// host is killed: the decision comes out again, and so does that about the pod
// which had to leave the room alone.
func TestAPreemptionIsReplayed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--listen", "127.0.0.1:0", "--agent", "none", "--simulate", "1", "--simulate-node", "cpu=2,memory=8Gi,pods=20",
		"--record", t.TempDir())
	c.urgency(t)
	for _, name := range []string{"guarded", "plain"} {
		p := costly(name, "1")
		p.Labels, p.Finalizers = map[string]string{"app": name}, []string{held}
		c.submit(t, p)
		c.awaitPod(t, name, "runs", isRunning)
	}
	urgent := costly("urgent", "1500m")
	urgent.Spec.PriorityClassName = "urgent"
	c.submit(t, urgent)
	c.awaitPod(t, "urgent", "is to have room", func(p *v1.Pod) bool { return p.Status.NominatedNodeName != "" })
	report := c.report(t, "urgent")
	if report.Room == nil || report.Node != "" {
		t.Fatalf("no room is made for the urgent pod: %+v", report)
	}
	want := []explain.Victim{{Namespace: "default", Pod: "guarded", Breaks: []string{"guard"}}, {Namespace: "default", Pod: "plain"}}
	check := func(when string, number uint64, room bool) {
		t.Helper()
		again := c.replayed(t, number)
		if !again.Same || len(again.Differs) > 0 || again.Note != "" || (again.RoomAgain != nil) != room {
			t.Fatalf("%s: decision %d comes out again as %+v", when, number, again)
		}
		if room && (again.RoomAgain.Node != again.Room.Node || !sameVictims(again.Room.Victims, want) || !sameVictims(again.RoomAgain.Victims, want)) {
			t.Fatalf("%s: room is made as %+v, want %+v preempted", when, again.RoomAgain, want)
		}
	}
	made := report.Room.Decision
	check("at once", made, true)

	late := costly("late", "1500m")
	late.Spec.PriorityClassName = "urgent"
	c.submit(t, late)
	c.awaitPod(t, "late", "has to wait", func(p *v1.Pod) bool { return condition(p, v1.PodScheduled).Message != "" })
	for _, name := range []string{"guarded", "plain"} {
		if by := c.report(t, name).PreemptedBy; by == nil || by.For != "default/urgent" || by.Decision != made {
			t.Errorf("%s was preempted by %+v, want decision %d for the urgent pod", name, by, made)
		}
	}
	for _, name := range []string{"guarded", "plain"} {
		if _, err := c.client.CoreV1().Pods("default").Patch(t.Context(), name, types.JSONPatchType,
			[]byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitPod(t, "urgent", "runs in their place", isRunning)
	out := c.must(t, binary, "explain", "pod", "urgent")
	for _, says := range []string{"by preempting what has a lower priority than 1000", "default/guarded, priority 0, against PodDisruptionBudget guard", "default/plain, priority 0"} {
		if !strings.Contains(out, says) {
			t.Errorf("explain lacks %q:\n%s", says, out)
		}
	}
	placed := c.report(t, "urgent").Decision.Number
	check("with the victims gone", made, true)
	c.must(t, c.kubectl, "patch", "profile", "default", "--type=json", "-p", `[{"op":"remove","path":"/spec/predicates/3"},{"op":"remove","path":"/spec/priorities/0"}]`)
	check("with other policies", made, true)
	c.kill()
	c.start()
	for number := made; number <= placed; number++ {
		check("after the host was killed", number, number == made)
	}
	table := c.must(t, binary, "replay", fmt.Sprint(made))
	for _, says := range []string{"ROOM MADE ON", "AGAINST BUDGET", "default/guarded", "guard"} {
		if !strings.Contains(table, says) {
			t.Errorf("replay lacks %q:\n%s", says, table)
		}
	}
}

// urgency makes a priority class, and a budget that allows nothing.
func (c *cluster) urgency(t *testing.T) {
	t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}
	if _, err := c.client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
	}
	if _, err := c.client.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func costly(name, cpu string) *v1.Pod {
	p := smallPod(name, nil)
	p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(cpu)
	return p
}

// replayed is what `berth replay` says, whatever its exit code is.
func (c *cluster) replayed(t *testing.T, number uint64) (r berthapi.Replay) {
	t.Helper()
	out, said, err := c.try(binary, "replay", fmt.Sprint(number), "-o", "json")
	if json.Unmarshal([]byte(out), &r) != nil {
		t.Fatalf("replay %d: %v: %s", number, err, said)
	}
	return r
}

func sameVictims(a, b []explain.Victim) bool {
	return slices.EqualFunc(a, b, func(v, w explain.Victim) bool { return v.String() == w.String() && slices.Equal(v.Breaks, w.Breaks) })
}
