package schedule

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
)

// BenchmarkCore is all that a pod costs the scheduler's loop: its event, the
// queue, the decision, its reservation and trace, the bind handed over, and the
// event of its being bound. Policies are native.
func BenchmarkCore(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000, 20000} {
		b.Run(fmt.Sprintf("one class, %d nodes", nodes), func(b *testing.B) { benchCore(b, nodes, 1) })
	}
	b.Run("all different, 5000 nodes", func(b *testing.B) { benchCore(b, 5000, 1<<20) })
}

func benchCore(b *testing.B, nodes, classes int) {
	reasons := framework.NewReasons(0)
	set := policytest.Set(1, policytest.Default(reasons))
	c := newCore(Config{Set: func() *framework.LiveSet { return set }, Reasons: reasons, Clock: time.Now})
	for _, n := range policytest.Nodes(nodes) {
		c.apply([]Event{{Resource: "nodes", Object: n}}, 0)
	}
	pods := make([]*v1.Pod, b.N)
	for i := range pods {
		pods[i] = policytest.Pod(fmt.Sprint(i), fmt.Sprintf("%dm", 100+i%classes), "200Mi", nil)
	}
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for i, pod := range pods {
		c.apply([]Event{{Resource: "pods", Object: pod}}, 0)
		if !c.step(ctx) {
			b.Fatal("no pod was ready")
		}
		for _, done := range c.takeBindings(512, 0) {
			next := *done.Pod
			next.Spec.NodeName = done.Node
			slot, _ := c.cluster.Slot(done.Node)
			next.Labels = snapshot.LabelsOn(c.cluster.Row(slot).Node, next.Labels)
			c.bound(next.UID, nil, 0)
			c.apply([]Event{{Resource: "pods", Object: &next}}, 0)
		}
		if i >= nodes {
			c.apply([]Event{{Resource: "pods", Deleted: true, Object: pods[i-nodes]}}, 0)
		}
	}
}
