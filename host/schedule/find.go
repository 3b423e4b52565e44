package schedule

import (
	"context"

	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// find looks a pod up by its name; that is rare, and takes no index.
func (c *core) find(namespace, name string, p *Present) {
	if namespace == "" && name == "" {
		return
	}
	is := func(o *v1.Pod) bool { return o.Namespace == namespace && o.Name == name }
	if e := c.queue.Find(is); e != nil {
		p.Pod, p.State = e.Pod, e.State().String()
		if pod, node, ok := c.cluster.Placed(e.Pod.UID()); ok {
			p.Pod, p.Node = pod, node
		}
		return
	}
	for _, o := range c.unclaimed {
		if is(o) {
			p.Pod, p.State = snapshot.NewPod(o), "unclaimed"
			return
		}
	}
	for uid, o := range c.latest {
		if is(o) {
			p.Pod, p.Node, _ = c.cluster.Placed(uid)
			p.State = "bound"
			return
		}
	}
}

// Counts says whether a pod counts on a node at present, bound or about to be.
func (s *Scheduler) Counts(ctx context.Context, uid types.UID) (placed bool, err error) {
	err = s.ask(ctx, func(c *core) { _, _, placed = c.cluster.Placed(uid) })
	return placed, err
}
