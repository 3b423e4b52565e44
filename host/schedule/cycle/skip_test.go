package cycle

import (
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
)

func TestASkipIsBelievedUntilWhatItDependsOnChanges(t *testing.T) {
	t.Parallel()
	var skipper *policytest.Native
	b := newBench(10, Options{}, func(reasons *framework.Reasons) *framework.Profile {
		skipper = &policytest.Native{
			Is:      policytest.Named("Skipper", abi.PodAffinity|abi.Pods|abi.NodeLabels, abi.ScopeSet),
			Reasons: reasons, Answer: func(snapshot.Log, *snapshot.Pod) abi.Ask { return abi.AskSkip },
		}
		skipper.Is.SkipDependsOn = abi.PodAffinity | abi.NodeLabels | abi.PodTerms
		return &framework.Profile{Name: "p", Predicates: []framework.ProfilePredicate{{Policy: skipper}}}
	})
	asked := func(what string, want int, change func(*v1.Pod)) {
		t.Helper()
		before := skipper.Calls
		b.n++
		pod := snapshot.NewPod(policytest.Pod(what, "1m", "1Mi", change))
		got := b.decide(pod, uint64(b.n))
		if calls := skipper.Calls - before; calls != want {
			t.Errorf("%s: asked %d times, want %d", what, calls, want)
		}
		b.c.Place(pod, b.c.Row(got.Slot).Node.Name)
	}
	asked("the first", 1, nil)
	asked("its replica, after the first was placed", 0, nil)
	carries := func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}
	}
	asked("another kind of pod", 1, carries)
	asked("a plain one, after one with terms was placed", 1, nil)
	node := b.c.Row(0).Node.DeepCopy()
	node.Status.Images = []v1.ContainerImage{{Names: []string{"x"}}}
	b.c.UpsertNode(node)
	asked("after a node's images changed", 0, nil)
	node = node.DeepCopy()
	node.Labels = map[string]string{"a": "b"}
	b.c.UpsertNode(node)
	asked("after a node's labels changed", 1, nil)

	before := skipper.Calls
	for i := range 2 * believed {
		pod := snapshot.NewPod(policytest.Pod(string(rune('a'+i)), "1m", "1Mi", nil))
		b.c.Place(pod, b.c.Row(b.decide(pod, uint64(i)).Slot).Node.Name)
	}
	if calls := skipper.Calls - before; calls < 1 || calls > 3 {
		t.Errorf("asked %d times for %d replicas, want to be told of them now and then", calls, 2*believed)
	}
}
