package schedule

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrNoRoom is why a node is not claimed for a pod.
var ErrNoRoom = errors.New("the node has no room for the pod")

// Claim reserves a node's resources for a pod that somebody else is about to
// bind there, as this scheduler reserves them for its own pods: so several
// schedulers cannot give the same room away. done must be called with how the
// bind ended.
//
// Nothing is reserved, and nothing refused, where this scheduler does not run,
// does not know the node, or has a place for the pod itself.
//
// # Errors
//
// ErrNoRoom, with what is lacking.
func (s *Scheduler) Claim(ctx context.Context, pod *v1.Pod, node string) (done func(error), err error) {
	reserved := false
	none := func(error) {}
	if asked := s.ask(ctx, func(c *core) { reserved, err = c.claim(pod, node, s.now()) }); asked != nil {
		return none, nil
	}
	if err != nil || !reserved {
		return none, err
	}
	return func(failed error) {
		if failed != nil {
			// Also when the request is gone: the room must come back.
			_ = s.ask(context.WithoutCancel(ctx), func(c *core) { c.unclaim(pod.UID, s.now()) })
		}
	}, nil
}

func (c *core) claim(object *v1.Pod, node string, now int64) (reserved bool, err error) {
	slot, known := c.cluster.Slot(node)
	if _, _, placed := c.cluster.Placed(object.UID); placed || !known {
		return false, nil
	}
	pod := snapshot.NewPod(object)
	if short := c.cluster.Row(slot).Shortage(pod); short != "" {
		return false, fmt.Errorf("%w: %s", ErrNoRoom, short)
	}
	if c.queue.Get(object.UID) != nil {
		return false, nil // it may get a place here at any time
	}
	c.cluster.Place(pod, node)
	c.queue.Follow(c.cluster, now)
	return true, nil
}

// unclaim gives the room back, unless the pod was seen bound after all.
func (c *core) unclaim(uid types.UID, now int64) {
	if c.latest[uid] == nil {
		c.cluster.Remove(uid)
		c.queue.Follow(c.cluster, now)
	}
}
