package snapshot

import (
	"slices"

	"github.com/berth-dev/berth/abi"

	"k8s.io/apimachinery/pkg/types"
)

// Place counts a pod on a node, because it is bound there or reserved. A pod
// that counts already moves, or changes; one that has not changed is left.
func (c *Cluster) Place(pod *Pod, node string) {
	if now, ok := c.placed[pod.UID()]; ok {
		if now.node == node && now.pod.samePlaced(pod) {
			return
		}
		c.Remove(pod.UID())
	}
	c.Unnominate(pod.UID())
	pod.ref.pod.Store(pod) // it may have been gone for a while
	c.placed[pod.UID()] = place{pod: pod, node: node}
	c.priorities[pod.Priority()]++
	slot, ok := c.slots[node]
	if !ok {
		c.strays[node] = append(c.strays[node], pod)
		return
	}
	c.history.next()
	row := *c.rows[slot]
	row.count(pod)
	c.put(&row, usageGroups(pod))
	c.tellPod(PodPlaced, pod, slot, came, placeBytes)
}

// Remove takes a pod away from where it counts.
func (c *Cluster) Remove(uid types.UID) bool {
	at, ok := c.placed[uid]
	if !ok {
		return false
	}
	delete(c.placed, uid)
	if c.priorities[at.pod.Priority()]--; c.priorities[at.pod.Priority()] == 0 {
		delete(c.priorities, at.pod.Priority())
	}
	slot, ok := c.slots[at.node]
	if !ok {
		c.removeStray(at.node, uid)
		c.history.gone(at.pod)
		return true
	}
	c.history.next()
	old := c.rows[slot]
	index := slices.IndexFunc(old.Pods, func(p *Pod) bool { return p.UID() == uid })
	c.put(old.Without(at.pod), usageGroups(at.pod))
	// While the deltas tell of it, the pod stays as it is; later its bytes do.
	c.tellPod(PodRemoved, at.pod, slot, index, at.pod.Weight()+len(old.Pods)*placeBytes)
	c.history.gone(at.pod)
	return true
}

// placeBytes is a place in a row's list of pods.
const placeBytes = 8

func (c *Cluster) removeStray(node string, uid types.UID) {
	left := slices.DeleteFunc(c.strays[node], func(p *Pod) bool { return p.UID() == uid })
	if len(left) == 0 {
		delete(c.strays, node)
		return
	}
	c.strays[node] = left
}

// Placed returns the pod that counts under uid and its node.
func (c *Cluster) Placed(uid types.UID) (pod *Pod, node string, ok bool) {
	at, ok := c.placed[uid]
	return at.pod, at.node, ok
}

// groups are those that change when the pod comes or goes, besides its row's.
func (p *Pod) groups() abi.Groups {
	if a := p.Object.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return abi.Pods | abi.PodTerms
	}
	return abi.Pods
}

// usageGroups are the groups of a row which a pod changes by counting on it.
func usageGroups(pod *Pod) abi.Groups {
	groups := abi.NodeUsage
	if len(pod.Ports) > 0 {
		groups |= abi.NodePorts
	}
	if pod.volumes {
		groups |= abi.NodeVolumes
	}
	return groups
}

// With returns the row as it is with further pods.
func (r *Row) With(pods ...*Pod) *Row {
	row := *r
	row.Pods = slices.Clip(row.Pods)
	for _, pod := range pods {
		row.count(pod)
	}
	return &row
}

// count adds a pod. The newest row of a slot may grow in the array that it
// shares with the rows before it: those are shorter and don't see it.
func (r *Row) count(pod *Pod) {
	r.Requested = r.Requested.plus(&pod.Requests)
	r.NonZero = r.NonZero.plus(&pod.NonZero)
	r.Pods = append(r.Pods, pod)
	if len(pod.Ports) > 0 {
		r.Ports = append(slices.Clip(r.Ports), pod.Ports...)
	}
	r.Requested.Pods = int64(len(r.Pods))
	r.NonZero.Pods = r.Requested.Pods
}

// Without returns the row as it is without one of its pods.
func (r *Row) Without(pods ...*Pod) *Row {
	row := *r
	gone := func(p *Pod) bool {
		return slices.ContainsFunc(pods, func(q *Pod) bool { return q.UID() == p.UID() })
	}
	row.Pods = make([]*Pod, 0, len(r.Pods))
	exact := true
	ports := false
	for _, p := range r.Pods {
		if !gone(p) {
			row.Pods = append(row.Pods, p)
			continue
		}
		ports = ports || len(p.Ports) > 0
		var a, b bool
		row.Requested, a = row.Requested.minus(&p.Requests)
		row.NonZero, b = row.NonZero.minus(&p.NonZero)
		exact = exact && a && b
	}
	if !exact {
		row.Requested, row.NonZero = sums(row.Pods)
	}
	if ports {
		row.Ports = portsOf(row.Pods)
	}
	row.Requested.Pods = int64(len(row.Pods))
	row.NonZero.Pods = row.Requested.Pods
	return &row
}

// Lesser lists the row's pods of lower priority.
func (r *Row) Lesser(priority int32) (list []*Pod) {
	for _, p := range r.Pods {
		if p.Priority() < priority {
			list = append(list, p)
		}
	}
	return list
}

func sums(pods []*Pod) (requested, nonZero Resources) {
	for _, p := range pods {
		requested = requested.plus(&p.Requests)
		nonZero = nonZero.plus(&p.NonZero)
	}
	return requested, nonZero
}

func portsOf(pods []*Pod) []HostPort {
	var ports []HostPort
	for _, p := range pods {
		ports = append(ports, p.Ports...)
	}
	return ports
}

// UsageGroups are the groups of a row that some pods change by coming or going.
func UsageGroups(pods ...*Pod) abi.Groups {
	var groups abi.Groups
	for _, p := range pods {
		groups |= usageGroups(p)
	}
	return groups
}

// HasLesser says whether a pod of lower priority is placed anywhere.
func (c *Cluster) HasLesser(priority int32) bool {
	for p := range c.priorities {
		if p < priority {
			return true
		}
	}
	return false
}
