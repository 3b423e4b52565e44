package schedule

import (
	"maps"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
)

// A pod gets its node's zone as it is bound: its place is that of the pod with it from
// the first, and the decision stays one about the pod without.
func TestABindThatAddsTheNodesZoneChangesNoPlace(t *testing.T) {
	t.Parallel()
	reasons := framework.NewReasons(0)
	set, now := policytest.Live(1, func() *framework.Profile { return policytest.Default(reasons) }), time.Unix(1e9, 0)
	c := newCore(Config{Reasons: reasons, Set: func() *framework.LiveSet { return set }, Clock: func() time.Time { return now }, LogBytes: 1 << 20})
	own := map[string]string{"app": "web", v1.LabelTopologyRegion: "elsewhere"}
	pod := policytest.Pod("p", "1", "1Gi", func(p *v1.Pod) { p.Labels = own })
	c.apply([]Event{
		{Resource: "nodes", Object: policytest.Node("a", "8", "8Gi", 110, func(n *v1.Node) {
			n.Labels[v1.LabelTopologyZone], n.Labels[v1.LabelTopologyRegion] = "z", "r"
		})},
		{Resource: "pods", Object: pod},
	}, now.UnixNano())
	if !c.step(t.Context()) || len(c.out.bindings) != 1 {
		t.Fatal("the pod was not placed")
	}
	if placed, _, _ := c.cluster.Placed(pod.UID); placed.Object.Labels[v1.LabelTopologyZone] != "z" {
		t.Errorf("its place is that of a pod with labels %v", placed.Object.Labels)
	}
	seq := c.cluster.Seq()
	bound := *pod
	bound.Spec.NodeName = "a"
	bound.Labels = snapshot.LabelsOn(c.cluster.Row(0).Node, pod.Labels)
	c.apply([]Event{{Resource: "pods", Object: &bound}}, now.UnixNano())
	if got := c.cluster.Seq(); got != seq {
		t.Errorf("the bind that was seen made %d changes, want none", got-seq)
	}
	if placed, _, _ := c.cluster.Placed(pod.UID); !placed.Same(snapshot.NewPod(placed.Object)) {
		t.Error("the place has other hashes than its pod")
	}
	decidedAbout := func(when string) {
		tr, _ := c.traces.Of(pod.Namespace, pod.Name)
		if !maps.Equal(tr.Pod.Object.Labels, own) || !tr.Pod.Same(snapshot.NewPod(pod)) {
			t.Errorf("%s the decision is told to be about a pod with labels %v, want %v", when, tr.Pod.Object.Labels, own)
		}
	}
	decidedAbout("while the pod is there,")
	c.apply([]Event{{Resource: "pods", Object: &bound, Deleted: true}}, now.UnixNano())
	decidedAbout("when it is gone,")
}
