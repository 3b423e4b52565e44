package snapshot_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

func cpu(amount string) v1.ResourceList {
	if amount == "" {
		return nil
	}
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
}

// resized is a pod that runs on a node: what its spec asks for, what it was
// given, and what it has.
func resized(spec, allocated, actual, reason string) *v1.Pod {
	p := policytest.Pod("p", spec, "", nil)
	p.Spec.NodeName = "n1"
	c := &p.Spec.Containers[0]
	c.Resources.Requests = cpu(spec)
	p.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: c.Name, AllocatedResources: cpu(allocated), Resources: &v1.ResourceRequirements{Requests: cpu(actual)},
	}}
	if reason != "" {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason}}
	}
	return p
}

// TestAResizeCountsAtItsMost: while resources change in place, a node holds the
// most of what is asked for, given and had, as kube-scheduler counts it; also
// where a decision is looked at later.
func TestAResizeCountsAtItsMost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                            string
		spec, allocated, actual, reason string
		want, nonZero                   int64
	}{
		{"nothing changes", "1", "1", "1", "", 1000, 1000},
		{"it grows, and is not given it yet", "2", "1", "1", v1.PodReasonDeferred, 2000, 2000},
		{"it grows, and was given it", "2", "2", "1", "", 2000, 2000},
		{"it can never grow", "100", "1", "1", v1.PodReasonInfeasible, 1000, 1000},
		{"it shrinks, and has more still", "500m", "500m", "1", "", 1000, 1000},
		{"it shrinks, and was given more", "500m", "1", "1", "", 1000, 1000},
		{"what it can never have is less than it has", "500m", "2", "1", v1.PodReasonInfeasible, 2000, 2000},
		{"it asks for nothing, and has some", "", "1", "1", "", 1000, 1000},
		{"it asks for some, and has nothing yet", "1", "", "", "", 1000, 1000},
		{"it never asked for anything", "", "", "", "", 0, snapshot.DefaultMilliCPU},
	} {
		pod := resized(tt.spec, tt.allocated, tt.actual, tt.reason)
		p := snapshot.NewPod(pod)
		if p.Requests.MilliCPU != tt.want || p.NonZero.MilliCPU != tt.nonZero {
			t.Errorf("%s: requests %d, for scoring %d, want %d and %d", tt.name, p.Requests.MilliCPU, p.NonZero.MilliCPU, tt.want, tt.nonZero)
		}
	}
}

func TestANodesUseFollowsAResize(t *testing.T) {
	t.Parallel()
	c := snapshot.New(0)
	c.UpsertNode(policytest.Node("n1", "8", "8Gi", 110, nil))
	want := map[uint64]int64{}
	for _, step := range []struct {
		pod *v1.Pod
		cpu int64
	}{
		{resized("1", "1", "1", ""), 1000},
		{resized("3", "1", "1", v1.PodReasonDeferred), 3000},
		{resized("100", "1", "1", v1.PodReasonInfeasible), 1000},
		{resized("500m", "500m", "1", ""), 1000},
		{resized("500m", "500m", "500m", ""), 500},
	} {
		c.Place(snapshot.NewPod(step.pod), "n1")
		if got := used(t, c); got != step.cpu {
			t.Errorf("the node's use is %d, want %d", got, step.cpu)
		}
		want[c.Seq()] = step.cpu
	}
	for seq, cpu := range want {
		past, ok := c.At(seq)
		if !ok {
			t.Fatalf("position %d is gone", seq)
		}
		if got := used(t, past); got != cpu {
			t.Errorf("at %d the use is %d, want %d", seq, got, cpu)
		}
	}
}

// used is what the only node has promised.
func used(t *testing.T, l interface{ Row(int32) *snapshot.Row }) int64 {
	t.Helper()
	row := l.Row(0)
	if row == nil {
		t.Fatal("the node is gone")
	}
	return row.Requested.MilliCPU
}

// TestRunningPodsCostNoMore: a pod that runs with what it asked for is summed as
// cheaply as one that waits.
func TestRunningPodsCostNoMore(t *testing.T) {
	runs := resized("1", "1", "1", "")
	waits := runs.DeepCopy()
	waits.Status = v1.PodStatus{}
	of := func(p *v1.Pod) float64 { return testing.AllocsPerRun(100, func() { snapshot.NewPod(p) }) }
	if a, b := of(runs), of(waits); a > b {
		t.Errorf("a running pod takes %v allocations, a waiting one %v", a, b)
	}
}
