package schedule

import (
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
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
