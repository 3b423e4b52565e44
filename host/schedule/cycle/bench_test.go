package cycle

import (
	"context"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// BenchmarkDecide is a decision and its reservation, for replicas of one class
// and for pods that all differ.
func BenchmarkDecide(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000, 20000} {
		b.Run(fmt.Sprintf("one class, %d nodes", nodes), func(b *testing.B) { decide(b, nodes, 1) })
		b.Run(fmt.Sprintf("all different, %d nodes", nodes), func(b *testing.B) { decide(b, nodes, 1<<20) })
	}
}

func decide(b *testing.B, nodes, classes int) {
	ctx := context.Background()
	reasons := framework.NewReasons(0)
	d := New(Options{Reasons: reasons})
	set := policytest.Set(1, policytest.Default(reasons))
	c := snapshot.New(0)
	for _, n := range policytest.Nodes(nodes) {
		c.UpsertNode(n)
	}
	pods := make([]*snapshot.Pod, b.N)
	for i := range pods {
		pods[i] = snapshot.NewPod(policytest.Pod(fmt.Sprint(i), fmt.Sprintf("%dm", 100+i%classes), "200Mi", nil))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i, pod := range pods {
		got := d.Decide(ctx, Input{Set: set, Profile: set.Profiles["default-scheduler"], Log: c, Pod: pod, Seed: uint64(i)})
		if got.Slot >= 0 {
			c.Place(pod, c.Row(got.Slot).Node.Name)
		}
		d.End()
		if i >= nodes {
			c.Remove(pods[i-nodes].UID())
		}
	}
}
