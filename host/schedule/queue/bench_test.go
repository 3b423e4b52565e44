package queue

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// BenchmarkFollow is a pod that goes from a full node and one that comes, while
// 10,000 wait that are too large even if all of lower priority went.
func BenchmarkFollow(b *testing.B) {
	for _, priority := range []int32{0, 10} {
		b.Run(fmt.Sprintf("over pods of priority 5, waiting are those of %d", priority), func(b *testing.B) {
			c, q := snapshot.New(0), New()
			c.UpsertNode(policytest.Node("a", "100", "400Gi", 110, nil))
			c.Place(podOf("important", "5", 20), "a")
			placed := make([]*snapshot.Pod, 90)
			for i := range placed {
				placed[i] = pod(fmt.Sprint("placed-", i), 5)
				c.Place(placed[i], "a")
			}
			q.Follow(c, 0)
			for i := range 10_000 {
				q.Add(podOf(fmt.Sprint("waits-", i), "99", priority), 0)
				q.Wait(q.Pop(0), abi.NodeUsage, false, 0)
			}
			b.ReportAllocs()
			for i := range b.N {
				p := placed[i%len(placed)]
				c.Remove(p.UID())
				q.Follow(c, 0)
				c.Place(p, "a")
				q.Follow(c, 0)
			}
			if _, _, waiting, _, _ := q.Len(); waiting != 10_000 {
				b.Fatalf("%d wait, want all", waiting)
			}
		})
	}
}
