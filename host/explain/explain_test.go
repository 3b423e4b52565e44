package explain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster is source and binder at once: what is bound comes back as an event.
type cluster struct {
	mu      sync.Mutex
	events  []schedule.Event
	changed chan struct{}
	pods    map[string]*v1.Pod
	victims []*v1.Pod
}

func newCluster() *cluster {
	return &cluster{changed: make(chan struct{}, 1), pods: map[string]*v1.Pod{}}
}

func (c *cluster) put(resource string, objects ...snapshot.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range objects {
		if p, ok := o.(*v1.Pod); ok {
			c.pods[p.Name] = p
		}
		c.events = append(c.events, schedule.Event{Resource: resource, Object: o})
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Next implements schedule.Source.
func (c *cluster) Next(ctx context.Context) ([]schedule.Event, bool, error) {
	for {
		c.mu.Lock()
		events := c.events
		c.events = nil
		c.mu.Unlock()
		if len(events) > 0 {
			return events, true, nil
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return nil, true, ctx.Err()
		}
	}
}

// Bind implements schedule.Binder.
func (c *cluster) Bind(_ context.Context, list []schedule.Binding) []error {
	for _, b := range list {
		p := *b.Pod
		p.Spec.NodeName = b.Node
		c.put("pods", &p)
	}
	return make([]error, len(list))
}

// Condition implements schedule.Binder.
func (*cluster) Condition(_ context.Context, list []schedule.Condition) []error {
	return make([]error, len(list))
}

// Evict implements schedule.Binder. The victims are gone when they are let go.
func (c *cluster) Evict(_ context.Context, list []schedule.Eviction) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range list {
		c.victims = append(c.victims, e.Victim)
	}
	return make([]error, len(list))
}

// gone tells that a pod was deleted.
func (c *cluster) gone(name string) {
	c.mu.Lock()
	c.events = append(c.events, schedule.Event{Resource: "pods", Deleted: true, Object: c.pods[name]})
	c.mu.Unlock()
	c.put("pods")
}

// letGo ends the victims, of which there must be so many by now.
func (c *cluster) letGo(t testing.TB, n int) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("%d pods are evicted", n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.victims) != n {
			return false
		}
		for _, v := range c.victims {
			c.events = append(c.events, schedule.Event{Resource: "pods", Deleted: true, Object: v})
		}
		c.victims = nil
		return true
	})
	c.put("pods")
}

// Provision implements schedule.Binder.
func (*cluster) Provision(_ context.Context, list []schedule.Provision) []error {
	return make([]error, len(list))
}

func run(t testing.TB, c *cluster, bytes int) *schedule.Scheduler {
	t.Helper()
	reasons := framework.NewReasons(0)
	set := policytest.Live(7, func() *framework.Profile { return policytest.Default(reasons) })
	s, err := schedule.New(schedule.Config{
		Source: c, Binder: c, Reasons: reasons, Set: func() *framework.LiveSet { return set }, Seed: 3, LogBytes: bytes,
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	return s
}

func serve(t testing.TB, s *schedule.Scheduler) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// decided waits for a decision about a pod.
func decided(t testing.TB, s *schedule.Scheduler, pod string, outcome schedule.Outcome) schedule.Trace {
	t.Helper()
	var trace schedule.Trace
	polltest.Until(t, fmt.Sprintf("pod %s is %s", pod, outcome), func() (ok bool) {
		trace, ok = s.Traces().Of("default", pod)
		return ok && trace.Outcome == outcome
	})
	return trace
}

func TestExplainsWhereAPodWent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 0)
		c.put("nodes", policytest.Node("big", "8", "8Gi", 110, nil), policytest.Node("small", "2", "8Gi", 110, nil), policytest.Node("tiny", "100m", "8Gi", 110, nil))
		c.put("pods", policytest.Pod("app", "1", "1Gi", nil))
		decided(t, s, "app", schedule.Placed)
		// What comes later must not change the story.
		c.put("nodes", policytest.Node("huge", "64", "64Gi", 110, nil))
		c.put("pods", policytest.Pod("later", "1", "1Gi", nil))
		decided(t, s, "later", schedule.Placed)

		r, err := explain.Pod(t.Context(), s, "default", "app", explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Node != "big" || r.Nodes != 3 || r.Feasible != 2 || r.Derived != "decision" || !r.Decision.Same || r.Set != 7 {
			t.Errorf("report = %+v, want big of 2 feasible of 3, derived from the decision", r)
		}
		var lines []string
		for _, row := range r.Rows {
			lines = append(lines, fmt.Sprintf("%s %v %v %d %v", row.Node, row.Feasible, row.Chosen, row.Total, row.Refusals))
		}
		want := []string{
			"big true true 387 []", "small true false 368 []", "tiny false false 0 [{PodFitsResources Insufficient cpu false} {host Insufficient cpu false}]",
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	})
}

func TestExplainsWhyAPodWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 0)
		c.put("nodes", policytest.Node("a", "1", "8Gi", 110, nil), policytest.Node("b", "8", "8Gi", 110, func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: "kept", Effect: v1.TaintEffectNoSchedule}}
		}), policytest.Node("c", "1", "8Gi", 110, func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: "kept", Effect: v1.TaintEffectNoExecute}}
		}))
		c.put("pods", policytest.Pod("app", "2", "1Gi", nil))
		decided(t, s, "app", schedule.Refused)
		r, err := explain.Pod(t.Context(), s, "default", "app", explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string][2]int{}
		for _, p := range r.Predicates {
			counts[p.Name] = [2]int{p.Refuses, p.Alone}
		}
		want := map[string][2]int{
			"PodToleratesNodeTaints": {2, 1}, "PodFitsResources": {2, 1}, "MatchNodeSelector": {}, "PodFitsHostPorts": {}, "Apart": {}, "host": {2, 0},
		}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Errorf("refusals and lone ones (-want +got):\n%s", diff)
		}
		if r.State != "waiting" || r.Derived != "present" || !strings.HasPrefix(r.Message, "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).") {
			t.Errorf("report = %s %s %q", r.State, r.Derived, r.Message)
		}
		one, err := explain.Pod(t.Context(), s, "default", "app", explain.Options{Node: "b"})
		if err != nil || len(one.Rows) != 1 || one.Rows[0].Refusals[0].Predicate != "PodToleratesNodeTaints" {
			t.Errorf("why not b: %+v, %v", one, err)
		}
		var text strings.Builder
		if err := r.Write(&text, explain.Page{}); err != nil || !strings.Contains(text.String(), "node(s) had untolerated taint(s)") {
			t.Errorf("text: %v\n%s", err, text.String())
		}
		if _, err := explain.Pod(t.Context(), s, "default", "nobody", explain.Options{}); err == nil {
			t.Error("a pod that is not there was explained")
		}
		if _, err := explain.Pod(t.Context(), s, "default", "app", explain.Options{Node: "nowhere"}); err == nil {
			t.Error("a node that is not there was explained")
		}
	})
}

// What is told is of the pod that has the name now, or else of the one that had
// it last.
func TestExplainsThePodThatHasTheNameNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 0)
		c.put("nodes", policytest.Node("a", "8", "8Gi", 110, nil))
		c.put("pods", policytest.Pod("web", "1", "1Gi", nil))
		c.put("pods", policytest.Pod("big", "9", "1Gi", nil))
		decided(t, s, "big", schedule.Refused)
		decided(t, s, "web", schedule.Placed)
		state := func(pod string) *explain.Report {
			t.Helper()
			r, err := explain.Pod(t.Context(), s, "default", pod, explain.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		turns := func(pod, want string) {
			t.Helper()
			polltest.Until(t, pod+" is "+want, func() bool { return state(pod).State == want })
		}
		turns("web", "bound")
		for _, gone := range []string{"web", "big"} {
			c.gone(gone)
		}
		turns("web", "gone")
		if r := state("web"); r.Node != "a" || r.Derived != "decision" || !r.Decision.Same {
			t.Errorf("the pod that is gone: %+v", r)
		}
		for _, name := range []string{"web", "big"} {
			c.put("pods", policytest.Pod(name, "1", "1Gi", func(p *v1.Pod) {
				p.UID, p.Spec.SchedulingGates = types.UID("another-"+name), []v1.PodSchedulingGate{{Name: "gate"}}
			}))
		}
		turns("web", "gated")
		turns("big", "gated")
		for _, name := range []string{"web", "big"} {
			if r := state(name); r.Node != "" || r.Message != "" || r.Decision != nil || r.Derived != "present" {
				t.Errorf("%s, which nobody has decided about: %+v", name, r)
			}
		}
	})
}

func TestSaysWhenADecisionLiesOutsideTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 128<<10)
		c.put("nodes", policytest.Node("a", "64", "64Gi", 10_000, nil))
		c.put("pods", policytest.Pod("first", "1", "1Gi", nil))
		first := decided(t, s, "first", schedule.Placed)
		for i := range 3000 {
			c.put("pods", policytest.Pod(fmt.Sprint("p", i), "1m", "1Mi", nil))
		}
		last := decided(t, s, "p2999", schedule.Placed)
		r, err := explain.Pod(t.Context(), s, "default", "first", explain.Options{})
		if err != nil || r.Derived != "present" || !strings.Contains(r.Note, "outside the recorded log") {
			t.Errorf("report = %+v, %v, want the present state with a note", r, err)
		}
		_, err = explain.Replay(t.Context(), s, first.Number)
		outside := new(explain.OutsideError)
		if !errors.As(err, &outside) || !errors.Is(err, explain.ErrOutside) || !strings.Contains(err.Error(), "the oldest kept is") || !strings.Contains(err.Error(), "--record DIR") {
			t.Fatalf("replay of the first decision: %v, want what the log holds", err)
		}
		if outside.Oldest <= first.Number || outside.Oldest > last.Number {
			t.Errorf("the log says that it holds from %d on, of %d", outside.Oldest, last.Number)
		}
		for _, number := range []uint64{outside.Oldest, last.Number} {
			if again, err := explain.Replay(t.Context(), s, number); err != nil || !again.Same {
				t.Errorf("replay of %d, which the log is said to hold: %+v, %v", number, again, err)
			}
		}
		if _, err := explain.Replay(t.Context(), s, outside.Oldest-1); !errors.Is(err, explain.ErrOutside) {
			t.Errorf("replay of what came before it: %v", err)
		}
		if _, err := explain.Replay(t.Context(), s, last.Number+1); !errors.Is(err, explain.ErrOutside) || !strings.Contains(err.Error(), "not been made") {
			t.Errorf("replay of what was never decided: %v", err)
		}
	})
}

func TestReplaysDecisionsToTheBit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 0)
		for i := range 20 {
			c.put("nodes", policytest.Node(fmt.Sprint("n", i), "4", "8Gi", 20, nil))
		}
		for i := range 200 {
			c.put("pods", policytest.Pod(fmt.Sprint("p", i), "300m", "128Mi", func(p *v1.Pod) {
				p.Labels = map[string]string{"apart": fmt.Sprint(i % 30), "crowd": fmt.Sprint(i % 2)}
			}))
		}
		decided(t, s, "p199", schedule.Placed)
		for _, trace := range s.Traces().Last(200) {
			again, err := explain.Replay(t.Context(), s, trace.Number)
			if err != nil || !again.Same || again.Note != "" {
				t.Fatalf("replay of %d: %+v, %v, want %s again", trace.Number, again, err, trace.Node)
			}
		}
	})
}

func TestPlansWithoutPlacing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 0)
		high := int32(5)
		c.put("nodes", policytest.Node("a", "2", "8Gi", 110, nil))
		c.put("pods", policytest.Pod("low", "1500m", "1Gi", nil))
		decided(t, s, "low", schedule.Placed)
		before := s.Stats().Cycles
		pods := []*v1.Pod{
			policytest.Pod("fits", "400m", "1Gi", nil),
			policytest.Pod("too-big", "3", "1Gi", nil),
			policytest.Pod("pushes", "1", "1Gi", func(p *v1.Pod) { p.Spec.Priority = &high }),
			policytest.Pod("foreign", "1", "1Gi", func(p *v1.Pod) { p.Spec.SchedulerName = "other" }),
		}
		got, err := explain.Plan(t.Context(), s, policytest.Live(7, func() *framework.Profile { return policytest.Default(s.Reasons()) }), pods)
		if err != nil {
			t.Fatal(err)
		}
		want := []explain.Placement{
			{Namespace: "default", Pod: "fits", Node: "a", Nodes: 1, Feasible: 1, Tied: 1, Score: 340},
			{Namespace: "default", Pod: "too-big", Nodes: 1, Message: "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."},
			{Namespace: "default", Pod: "pushes", Node: "a", Nodes: 1, Message: "0/1 nodes are available: 1 Insufficient cpu.", Preempts: []string{"default/low"}},
			{Namespace: "default", Pod: "foreign", Message: "no profile claims its schedulerName, or it is gated"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
		if after := s.Stats().Cycles; after != before {
			t.Errorf("planning ran %d cycles of the live scheduler", after-before)
		}
	})
}

// A pod that is on its way out makes room in a plan as one does that must go.
func TestAPlanReckonsWithWhoIsLeaving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 0)
		c.put("nodes", policytest.Node("a", "1", "8Gi", 110, nil))
		c.put("pods", policytest.Pod("low", "1", "1Gi", nil))
		decided(t, s, "low", schedule.Placed)
		c.put("pods", policytest.Pod("low", "1", "1Gi", func(p *v1.Pod) {
			now := metav1.Now()
			p.Spec.NodeName, p.DeletionTimestamp = "a", &now
		}), policytest.Pod("last", "9", "1Gi", nil))
		decided(t, s, "last", schedule.Refused)
		plan, err := explain.Plan(t.Context(), s, whole(s), []*v1.Pod{policytest.Pod("urgent", "1", "1Gi", priority(9))})
		if err != nil || len(plan) != 1 || plan[0].Node != "a" || len(plan[0].Preempts) != 1 || plan[0].Preempts[0] != "default/low" {
			t.Errorf("plan = %+v, %v, want a after default/low", plan, err)
		}
	})
}

func BenchmarkExplainWaitingPod(b *testing.B) {
	c := newCluster()
	s := run(b, c, 0)
	for _, n := range policytest.Nodes(5000) {
		c.put("nodes", n)
	}
	c.put("pods", policytest.Pod("app", "9", "1Gi", nil))
	decided(b, s, "app", schedule.Refused)
	for b.Loop() {
		if _, err := explain.Pod(b.Context(), s, "default", "app", explain.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
