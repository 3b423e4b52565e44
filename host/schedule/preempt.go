package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/queue"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What pods wait for that are not refused by a policy alone.
const (
	waitVolumes = abi.Volumes
	waitRoom    = abi.NodeGroups // its node may come to be of no use, too
)

// preempt makes room for a pod that fits nowhere, and notes where and how.
func (c *core) preempt(ctx context.Context, entry *queue.Entry, in cycle.Input, trace *Trace) {
	if entry.Pod.NeverPreempts() || c.awaitsRoom(entry.Pod) {
		return
	}
	if !c.cluster.HasLesser(entry.Pod.Priority()) {
		c.giveUp(entry, in.Now)
		return
	}
	trace.Preemption = &Preemption{}
	room, noted := c.room(in, trace.Preemption)
	found, ok := c.decider.Preempt(ctx, room)
	trace.Preemption.Started = packStarts(c.cluster, noted)
	// A victim names its budgets in the order in which they were reckoned with.
	slices.SortFunc(trace.Preemption.Budgets, func(a, b *cycle.Budget) int {
		return cmp.Compare(slices.Index(c.budgets, a), slices.Index(c.budgets, b))
	})
	if !ok {
		c.giveUp(entry, in.Now)
		return
	}
	trace.Preemption.Victims = found.Victims
	row := c.cluster.Row(found.Slot)
	c.vacate(entry.Pod.UID(), row.Node.Name, in.Now)
	c.demote(row, entry.Pod, in.Now)
	c.cluster.Nominate(entry.Pod, row.Node.Name)
	entry.Nominated = row.Node.Name
	for _, victim := range found.Victims {
		c.evict(victim.Pod, entry.Pod, row.Node.Name)
	}
	trace.Made = row.Node.Name
}

// room is what preemption reckons with. What it asks of that, and the cluster as
// it was does not tell, is noted.
func (c *core) room(in cycle.Input, note *Preemption) (room cycle.Room, starts map[types.UID]int64) {
	starts = map[types.UID]int64{}
	return cycle.Room{
		Budgets: c.budgets, Nominated: in.Nominated,
		Started: func(p *snapshot.Pod) int64 {
			latest := c.latest[p.UID()]
			if latest == nil {
				return cycle.StartOf(p.Object)
			}
			at := cycle.StartOf(latest)
			if at != cycle.StartOf(p.Object) {
				starts[p.UID()] = at
			}
			return at
		},
		Counted: func(b *cycle.Budget) {
			if !slices.Contains(note.Budgets, b) {
				note.Budgets = append(note.Budgets, b)
			}
		},
	}, starts
}

// giveUp keeps no room for a pod for which none can be made.
func (c *core) giveUp(entry *queue.Entry, now int64) {
	entry.Nominated = ""
	c.vacate(entry.Pod.UID(), "", now)
}

// awaitsRoom says whether a pod is leaving to make room for this one, on a node
// that would take it then.
func (c *core) awaitsRoom(pod *snapshot.Pod) bool {
	slot, ok := c.cluster.Slot(c.cluster.NominatedNode(pod.UID()))
	if !ok || !c.decider.Resolvable(slot) {
		return false
	}
	return slices.ContainsFunc(c.cluster.Row(slot).Pods, func(p *snapshot.Pod) bool {
		return p.Priority() < pod.Priority() && c.preempted(p)
	})
}

// preempted says whether a pod is on its way out to make room, by this scheduler
// or by one before it.
func (c *core) preempted(p *snapshot.Pod) bool {
	if c.evicted[p.UID()] {
		return true
	}
	latest := c.latest[p.UID()]
	return latest != nil && latest.DeletionTimestamp != nil && slices.ContainsFunc(latest.Status.Conditions, func(d v1.PodCondition) bool {
		return d.Type == v1.DisruptionTarget && d.Status == v1.ConditionTrue && d.Reason == v1.PodReasonPreemptionByScheduler
	})
}

// leaving says whether a pod is on its way out.
func (c *core) leaving(p *snapshot.Pod) bool {
	if c.evicted[p.UID()] {
		return true
	}
	latest := c.latest[p.UID()]
	return latest != nil && latest.DeletionTimestamp != nil
}

// demote takes the row from pods of lower priority for which room was made there.
func (c *core) demote(row *snapshot.Row, pod *snapshot.Pod, now int64) {
	for _, lesser := range c.cluster.Lesser(row.Node.Name, pod.Priority()) {
		if e := c.queue.Get(lesser); e != nil {
			e.Nominated = ""
		}
		c.vacate(lesser, "", now)
	}
}

// vacate keeps room for a pod no more, and wakes those whom that may help. to is the
// node where the pod takes its room, or has other room made, empty for none.
func (c *core) vacate(uid types.UID, to string, now int64) {
	pod, node := c.cluster.Unnominate(uid)
	if slot, ok := c.cluster.Slot(node); ok && node != to {
		c.queue.Vacated(c.cluster.Row(slot), pod, now)
	}
}

func (c *core) evict(victim, by *snapshot.Pod, node string) {
	leaves := c.leaving(victim)
	c.evicted[victim.UID()] = true
	if leaves {
		return
	}
	object := victim.Object
	if latest := c.latest[victim.UID()]; latest != nil {
		object = latest
	}
	c.out.evictions = append(c.out.evictions, Eviction{Victim: object, By: by.Object, Node: node})
	c.out.notices = append(c.out.notices, notice{object, v1.EventTypeNormal, "Preempted",
		fmt.Sprintf("Preempted by pod %s on node %s", by.UID(), node)})
}

// evictFailed hears that a victim did not go: for whom it should have is tried again.
func (c *core) evictFailed(e *Eviction, now int64) {
	delete(c.evicted, e.Victim.UID)
	c.retry(e.By.UID, now)
}
