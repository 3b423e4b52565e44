package cycle

import (
	"context"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
)

// bench is a cluster and a Decider over one profile.
type bench struct {
	c       *snapshot.Cluster
	d       *Decider
	set     *framework.LiveSet
	reasons *framework.Reasons
	n       int
}

func newBench(nodes int, o Options, profiles func(*framework.Reasons) *framework.Profile) *bench {
	b := &bench{c: snapshot.New(0), reasons: framework.NewReasons(0)}
	for _, n := range policytest.Nodes(nodes) {
		b.c.UpsertNode(n)
	}
	o.Reasons = b.reasons
	b.d = New(o)
	b.set = policytest.Set(1, profiles(b.reasons))
	return b
}

func (b *bench) decide(pod *snapshot.Pod, seed uint64) Decision {
	ctx := context.Background()
	got := b.d.Decide(ctx, Input{Set: b.set, Profile: b.set.Profiles["default-scheduler"], Log: b.c, Pod: pod, Seed: seed})
	b.d.End()
	return got
}

func (b *bench) pod(cpu string) *snapshot.Pod {
	b.n++
	return snapshot.NewPod(policytest.Pod(fmt.Sprint("p", b.n), cpu, "200Mi", nil))
}

// A policy is asked about rows that differ in what it reads, not about each: one
// that saw an empty node, and one with a replica on it, knows all the others.
func TestEqualRowsAreAskedAboutOnce(t *testing.T) {
	t.Parallel()
	b := newBench(500, Options{}, policytest.Default)
	fits := b.set.Profiles["default-scheduler"].Predicates[3].Policy.(*policytest.Native)
	for i := range 53 {
		pod := b.pod("100m")
		b.c.Place(pod, b.c.Row(b.decide(pod, uint64(i)).Slot).Node.Name)
	}
	if fits.Rows > 5 {
		t.Errorf("53 replicas asked PodFitsResources about %d rows, want few: empty ones and taken ones", fits.Rows)
	}
	before := fits.Rows
	b.decide(b.pod("200m"), 1)
	if asked := fits.Rows - before; asked != 2 {
		t.Errorf("another pod asked about %d rows, want one that is empty and one that is not", asked)
	}
}

// Policies that read the same of pods are remembered all, also where each pod
// differs from the others in what these do not read.
func TestWhatADifferentPodSharesIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	var policies []*policytest.Native
	b := newBench(50, Options{}, func(reasons *framework.Reasons) *framework.Profile {
		p := &framework.Profile{Name: "default-scheduler"}
		for i := range 5 {
			n := policytest.Taints(reasons)
			n.Is = policytest.Named(fmt.Sprint("Taints", i), n.Is.Reads, n.Is.Scope)
			policies = append(policies, n)
			p.Predicates = append(p.Predicates, framework.ProfilePredicate{Policy: n})
		}
		return p
	})
	for i := range 20 {
		b.decide(b.pod(fmt.Sprintf("%dm", 100+i)), 1)
	}
	for _, p := range policies {
		if p.Calls > 4 {
			t.Errorf("%s was called %d times for 20 pods of equal tolerations", p.Is.Name, p.Calls)
		}
	}
}

// What reads the nodes' names is asked about each.
func TestAPolicyThatReadsNamesIsAskedAboutEachRow(t *testing.T) {
	t.Parallel()
	b := newBench(50, Options{}, func(reasons *framework.Reasons) *framework.Profile {
		return &framework.Profile{Name: "default-scheduler", Predicates: []framework.ProfilePredicate{{Policy: &policytest.Native{
			Is: policytest.Named("One", abi.NodeName, abi.ScopeRow), Reasons: reasons,
			Judge: func(_ snapshot.Log, _ *snapshot.Pod, row *snapshot.Row) string {
				if row.Node.Name == "node-00007" {
					return ""
				}
				return "another node"
			},
		}}}}
	})
	for range 3 {
		got := b.decide(b.pod("1"), 1)
		if got.Feasible != 1 || b.c.Row(got.Slot).Node.Name != "node-00007" {
			t.Errorf("%+v, want node-00007 alone", got)
		}
	}
}

func TestAllocatesNothingPerNode(t *testing.T) {
	perDecision := func(nodes int) float64 {
		b := newBench(nodes, Options{}, policytest.Default)
		pods := make([]*snapshot.Pod, 300)
		for i := range pods {
			pods[i] = b.pod(fmt.Sprintf("%dm", 100+i))
		}
		next := 0
		run := func() { b.decide(pods[next%len(pods)], uint64(next)); next++ }
		for range 50 {
			run()
		}
		return testing.AllocsPerRun(200, run)
	}
	if small, large := perDecision(50), perDecision(5000); large > small+4 || large > 16 {
		t.Errorf("a decision allocates %v times at 50 nodes and %v at 5,000", small, large)
	}
}

func TestRememberedAnswersStayWithinTheirMemory(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	b := newBench(1000, Options{MemoryBytes: limit}, policytest.Default)
	for i := range 400 {
		// Twice the same: what comes once is not kept.
		pod := b.pod(fmt.Sprintf("%dm", 100+i))
		b.decide(pod, 1)
		b.decide(pod, 2)
		b.decide(pod, 3)
	}
	if used := b.d.Remembered(); used == 0 || used > limit {
		t.Errorf("%d bytes are remembered, want some, and at most %d", used, limit)
	}
}

func TestAWrongPolicyCannotOvercommit(t *testing.T) {
	t.Parallel()
	b := newBench(3, Options{}, func(reasons *framework.Reasons) *framework.Profile {
		// Nobody looks at resources, and full nodes are liked best.
		return &framework.Profile{Name: "default-scheduler", Priorities: []framework.ProfilePriority{{Weight: 1, Policy: &policytest.Native{
			Is: policytest.Named("Crowd", abi.NodeUsage, abi.ScopeRow), Reasons: reasons,
			Rate: func(_ snapshot.Log, _ *snapshot.Pod, row *snapshot.Row) int64 {
				return min(100, row.Requested.MilliCPU/40)
			},
		}}}}
	})
	placed := 0
	for range 20 {
		pod := b.pod("900m")
		got := b.decide(pod, 1)
		if got.Slot < 0 {
			continue
		}
		placed++
		b.c.Place(pod, b.c.Row(got.Slot).Node.Name)
	}
	for slot := range b.c.Slots() {
		if row := b.c.Row(slot); row.Requested.MilliCPU > row.Allocatable.MilliCPU {
			t.Errorf("%s is overcommitted: %d of %d", row.Node.Name, row.Requested.MilliCPU, row.Allocatable.MilliCPU)
		}
	}
	if placed != 12 {
		t.Errorf("%d pods were placed, want the 12 that fit", placed)
	}
}

// Nobody allocates devices here: a pod that claims some waits, as it does under
// kube-scheduler until they are allocated.
func TestAPodThatNamesAResourceClaimWaits(t *testing.T) {
	t.Parallel()
	b := newBench(3, Options{}, policytest.Default)
	pod := snapshot.NewPod(policytest.Pod("p", "100m", "200Mi", func(p *v1.Pod) {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}}
	}))
	got := b.decide(pod, 1)
	if got.Slot >= 0 || len(got.Refusals) != 1 || b.reasons.Get(got.Refusals[0].Reason).Text != "cannot allocate all claims" {
		t.Errorf("slot %d, refusals %v", got.Slot, got.Refusals)
	}
	if got := b.decide(b.pod("100m"), 1); got.Slot < 0 {
		t.Errorf("another pod: %+v", got)
	}
}

func TestAPolicyThatFailsFollowsItsFailureMode(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		broken := true
		b := newBench(5, Options{}, func(reasons *framework.Reasons) *framework.Profile {
			p := policytest.Default(reasons)
			p.Predicates[0].FailOpen = open
			p.Predicates[0].Policy.(*policytest.Native).Fail = func() error {
				if broken {
					return policytest.ErrBroken
				}
				return nil
			}
			return p
		})
		got := b.decide(b.pod("1"), 1)
		if (got.Slot >= 0) != open || len(got.Failures) == 0 {
			t.Errorf("fail open %v: slot %d, failures %v", open, got.Slot, got.Failures)
		}
		if !open && b.reasons.Get(got.Refusals[0].Reason).Text != "policy PodToleratesNodeTaints failed" {
			t.Errorf("refused for %+v", b.reasons.Get(got.Refusals[0].Reason))
		}
		// Nothing of the failure is remembered.
		broken = false
		if got := b.decide(b.pod("1"), 1); got.Slot < 0 || got.Feasible != 5 || len(got.Failures) != 0 {
			t.Errorf("fail open %v, after repair: %+v", open, got)
		}
	}
}

func TestAPriorityThatFailsScoresNothing(t *testing.T) {
	t.Parallel()
	broken := false
	b := newBench(5, Options{}, func(reasons *framework.Reasons) *framework.Profile {
		p := policytest.Default(reasons)
		p.Priorities[2].Policy.(*policytest.Native).Fail = func() error {
			if broken {
				return policytest.ErrBroken
			}
			return nil
		}
		return p
	})
	whole := b.decide(b.pod("1"), 1).Total
	broken = true
	b.c.UpsertNode(policytest.Node("new", "4", "32Gi", 110, nil))
	got := b.decide(b.pod("2"), 1)
	if got.Slot < 0 || got.Total >= whole || len(got.Failures) == 0 {
		t.Errorf("with a broken priority: %+v, whole total %d", got, whole)
	}
	broken = false
	if got := b.decide(b.pod("1"), 1); got.Total != whole {
		t.Errorf("after repair the total is %d, want %d", got.Total, whole)
	}
}

// A priority that fails for the one node that is new counts on no node: else the
// others would keep what it gave them before.
func TestAPriorityThatFailsCountsOnNoNode(t *testing.T) {
	t.Parallel()
	broken := false
	b := newBench(5, Options{}, func(reasons *framework.Reasons) *framework.Profile {
		return &framework.Profile{Name: "default-scheduler", Priorities: []framework.ProfilePriority{{Weight: 1, Policy: &policytest.Native{
			Is: policytest.Named("Old", abi.NodeLabels, abi.ScopeRow), Reasons: reasons,
			Rate: func(_ snapshot.Log, _ *snapshot.Pod, row *snapshot.Row) int64 { return 50 },
			Fail: func() error {
				if broken {
					return policytest.ErrBroken
				}
				return nil
			},
		}}}}
	})
	for range 2 {
		b.decide(b.pod("1"), 1)
	}
	broken = true
	b.c.UpsertNode(policytest.Node("new", "4", "32Gi", 110, nil))
	if got := b.decide(b.pod("1"), 1); got.Total != 0 || got.Tied != 6 || len(got.Failures) == 0 {
		t.Errorf("total %d on %d nodes, failures %v; want 0 on all 6, and the failure", got.Total, got.Tied, got.Failures)
	}
	broken = false
	if got := b.decide(b.pod("1"), 1); got.Total != 50 || got.Tied != 6 {
		t.Errorf("after repair: total %d on %d nodes, want 50 on 6", got.Total, got.Tied)
	}
}

// As in kube-scheduler, a pod waits where a priority fails that is to fail closed.
func TestAPodWaitsForAPriorityThatFailsClosed(t *testing.T) {
	t.Parallel()
	broken := true
	b := newBench(5, Options{}, func(reasons *framework.Reasons) *framework.Profile {
		p := policytest.Default(reasons)
		p.Priorities[2].FailClosed = true
		p.Priorities[2].Policy.(*policytest.Native).Fail = func() error {
			if broken {
				return policytest.ErrBroken
			}
			return nil
		}
		return p
	})
	got := b.decide(b.pod("1"), 1)
	name := b.set.Profiles["default-scheduler"].Priorities[2].Policy.Info().Name
	if got.Slot >= 0 || len(got.Failures) != 1 || len(got.Refusals) != 1 || b.reasons.Get(got.Refusals[0].Reason).Text != "policy "+name+" failed" {
		t.Errorf("slot %d, failures %v, refusals %v", got.Slot, got.Failures, got.Refusals)
	}
	broken = false
	if got := b.decide(b.pod("1"), 1); got.Slot < 0 || len(got.Failures) != 0 {
		t.Errorf("after repair: %+v", got)
	}
}

// TestFindsAPolicyThatIsNotPure: the second instance of a policy answers
// otherwise; the policy is not believed any more, and says so once.
func TestFindsAPolicyThatIsNotPure(t *testing.T) {
	t.Parallel()
	var found []Divergence
	b := newBench(50, Options{OnDivergence: func(d Divergence) { found = append(found, d) }}, func(reasons *framework.Reasons) *framework.Profile {
		p := policytest.Default(reasons)
		verifier := policytest.Taints(reasons)
		verifier.Judge = func(_ snapshot.Log, _ *snapshot.Pod, row *snapshot.Row) string {
			if row.Node.Name == "node-00007" {
				return "I changed my mind"
			}
			return ""
		}
		p.Predicates[0].Verifier = verifier
		return p
	})
	taints := b.set.Profiles["default-scheduler"].Predicates[0].Policy.(*policytest.Native)
	for i := range 5000 {
		b.decide(b.pod("100m"), uint64(i))
	}
	want := Divergence{Policy: "PodToleratesNodeTaints", Identity: taints.Is.Identity, Pod: found[0].Pod, Node: "node-00007", Remembered: "admits", Again: "I changed my mind"}
	if len(found) != 1 || found[0] != want {
		t.Fatalf("differences = %+v, want one: %+v", found, want)
	}
	before := taints.Rows
	b.decide(b.pod("100m"), 1)
	if asked := taints.Rows - before; asked != 50 {
		t.Errorf("afterwards a decision asks it about %d rows, want all 50", asked)
	}
}

func TestRespectsRoomThatIsMadeForOthers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(1, Options{}, policytest.Default)
	high := int32(7)
	waiting := snapshot.NewPod(policytest.Pod("waiting", "3", "1Gi", func(p *v1.Pod) { p.Spec.Priority = &high }))
	b.c.Nominate(waiting, "node-00000")
	try := func(pod *snapshot.Pod) Decision {
		got := b.d.Decide(ctx, Input{Set: b.set, Profile: b.set.Profiles["default-scheduler"], Log: b.c, Pod: pod, Nominated: b.c.Nominated(pod)})
		b.d.End()
		return got
	}
	if got := try(b.pod("2")); got.Slot >= 0 {
		t.Errorf("a pod of lower priority took the room: %+v", got)
	}
	if got := try(b.pod("1")); got.Slot < 0 {
		t.Errorf("a pod that fits beside was refused: %+v", got)
	}
	higher := int32(9)
	boss := snapshot.NewPod(policytest.Pod("boss", "2", "1Gi", func(p *v1.Pod) { p.Spec.Priority = &higher }))
	if got := try(boss); got.Slot < 0 {
		t.Errorf("a pod of higher priority was kept away: %+v", got)
	}
	if got := try(waiting); got.Slot < 0 {
		t.Errorf("the pod itself was kept away: %+v", got)
	}
}
