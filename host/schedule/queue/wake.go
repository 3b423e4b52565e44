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
	v := vacancy{row: row}
	for of, set := range q.byGroups {
		if of&groups == 0 && groups&abi.NodeGroups != abi.NodeGroups {
			continue
		}
		for e := range set {
			if row == nil || e.spread || v.helps(e) {
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
	v, groups := vacancy{row: row}, snapshot.UsageGroups(pod)|abi.Pods
	for of, set := range q.byGroups {
		if of&groups == 0 {
			continue
		}
		for e := range set {
			if e.Pod.Priority() <= pod.Priority() && (e.spread || v.helps(e)) {
				q.wake(e, now)
			}
		}
	}
}

// vacancy is the room of a row that has changed.
type vacancy struct {
	row *snapshot.Row
	// left is the row without its pods of lower priority than the key, nil where
	// there are none.
	left map[int32]*snapshot.Row
}

// helps says whether a change in the row can help a pod that only the row's own
// facts have kept away: if it has room, or would have by preemption. A pod for which
// room is being made makes no more, and looks to whatever happens there.
func (v *vacancy) helps(e *Entry) bool {
	switch {
	case v.row.Fits(e.Pod):
		return true
	case e.Nominated != "":
		return e.Nominated == v.row.Node.Name
	}
	left := v.over(e.Pod.Priority())
	return left != nil && left.Fits(e.Pod) && !e.Pod.NeverPreempts()
}

// over is the row as it would be left to a pod of a priority. Many wait that are of
// the same.
func (v *vacancy) over(priority int32) *snapshot.Row {
	left, known := v.left[priority]
	if known {
		return left
	}
	if lesser := v.row.Lesser(priority); len(lesser) > 0 {
		left = v.row.Without(lesser...)
	}
	if v.left == nil {
		v.left = map[int32]*snapshot.Row{}
	}
	v.left[priority] = left
	return left
}

// WakeAll wakes every waiting pod: what refused them may not be any more.
func (q *Queue) WakeAll(now int64) {
	for _, set := range q.byGroups {
		for e := range set {
			q.wake(e, now)
		}
	}
}
