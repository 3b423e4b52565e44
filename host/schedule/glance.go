package schedule

import (
	"context"
	"time"

	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
)

// Glance is the present in short, for those who look several times a second:
// nothing in it is copied but pointers, and nothing of it is ever changed.
type Glance struct {
	// Seq is the number of the newest change of the snapshot.
	Seq uint64
	// Rows are the nodes by slot, nil where a slot is empty.
	Rows []*snapshot.Row
}

// Pending is a pod that has no node.
type Pending struct {
	Pod *v1.Pod
	// State is where in the queue it is: active, backoff, waiting, gated, in
	// flight, or unclaimed where no profile claims its schedulerName.
	State    string
	Attempts int
	// Message is what was last written about it, empty before its first try.
	Message string
	// Since is when the scheduler first heard of it.
	Since time.Time
}

// Glance takes the present down between two cycles.
func (s *Scheduler) Glance(ctx context.Context) (g Glance, err error) {
	err = s.ask(ctx, func(c *core) {
		g.Seq, g.Rows = c.cluster.Seq(), make([]*snapshot.Row, c.cluster.Slots())
		for slot := range g.Rows {
			g.Rows[slot] = c.cluster.Row(int32(slot))
		}
	})
	return g, err
}

// Pending takes down which pods have no node, in no order.
func (s *Scheduler) Pending(ctx context.Context) (all []Pending, err error) {
	err = s.ask(ctx, func(c *core) {
		for e := range c.queue.All() {
			if _, _, placed := c.cluster.Placed(e.Pod.UID()); placed {
				continue
			}
			all = append(all, Pending{
				Pod: e.Pod.Object, State: e.State().String(), Attempts: e.Attempts, Message: e.Message, Since: time.Unix(0, e.Added),
			})
		}
		for _, pod := range c.unclaimed {
			all = append(all, Pending{Pod: pod, State: "unclaimed", Since: pod.CreationTimestamp.Time})
		}
	})
	return all, err
}
