package queue

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// filling are the groups of a row that change when pods come or go.
const filling = abi.NodeUsage | abi.NodePorts | abi.NodeVolumes

// Follow wakes the waiting pods that the log's changes since the last call
// could help.
func (q *Queue) Follow(log snapshot.Log, now int64) {
	since, ok := log.Since(q.seq)
	q.seq = log.Seq()
	if q.waiting.Len() == 0 {
		return
	}
	if !ok {
		q.WakeAll(now)
		return
	}
	for deltas := since.Whole(); len(deltas) > 0; {
		n := 1
		for n < len(deltas) && deltas[n].Seq == deltas[0].Seq {
			n++
		}
		groups, row := helps(deltas[:n])
		q.wakeFor(groups, row, now)
		deltas = deltas[n:]
	}
}

// helps tells in which groups the deltas of one number could help a waiting
// pod, and of which row. A pod that comes takes room and gives none: it helps
// only those who look for other pods.
func helps(deltas []snapshot.Delta) (groups abi.Groups, row *snapshot.Row) {
	placed := false
	for i := range deltas {
		d := &deltas[i]
		groups |= d.Groups
		placed = placed || d.Kind == snapshot.PodPlaced
		switch d.Kind {
		case snapshot.RowUpsert:
			row = d.Row
		case snapshot.RowRemove:
			// A node less helps only those who count nodes or pods.
			return abi.Pods, nil
		}
	}
	if placed && groups&abi.NodeGroups != abi.NodeGroups {
		groups &^= filling
	}
	return groups, row
}

// wakeFor wakes who waits for one of groups; a new node can help everybody.
func (q *Queue) wakeFor(groups abi.Groups, row *snapshot.Row, now int64) {
	for of, set := range q.byGroups {
		if of&groups == 0 && groups&abi.NodeGroups != abi.NodeGroups {
			continue
		}
		for e := range set {
			if row == nil || e.spread || couldTake(row, e.Pod, groups) {
				q.wake(e, now)
			}
		}
	}
}

// Vacated wakes who could take the room on a row that is kept for a pod no more, and
// that pod itself, which must look elsewhere. The room was kept from those who are no
// more important than it.
func (q *Queue) Vacated(row *snapshot.Row, pod *snapshot.Pod, now int64) {
	if e := q.entries[pod.UID()]; e != nil && e.state == Waiting {
		q.wake(e, now)
	}
	groups := snapshot.UsageGroups(pod) | abi.Pods
	for of, set := range q.byGroups {
		if of&groups == 0 {
			continue
		}
		for e := range set {
			if e.Pod.Priority() <= pod.Priority() && (e.spread || couldTake(row, e.Pod, groups)) {
				q.wake(e, now)
			}
		}
	}
}

// couldTake says whether a change in one row can help a pod that only this
// row's own facts have kept away: if it has room, or could have by preemption.
func couldTake(row *snapshot.Row, pod *snapshot.Pod, groups abi.Groups) bool {
	if row.Fits(pod) {
		return true
	}
	return groups&^(filling|abi.Pods) != 0 && pod.Priority() > 0 && row.CouldFit(pod)
}

// WakeAll wakes every waiting pod: what refused them may not be any more.
func (q *Queue) WakeAll(now int64) {
	for _, set := range q.byGroups {
		for e := range set {
			q.wake(e, now)
		}
	}
}
