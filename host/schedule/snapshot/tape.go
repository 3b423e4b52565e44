package snapshot

import (
	"slices"
	"sort"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/chunkqueue"
)

// Tape is a stretch of the log that can be played: the cluster as it was at
// one position, and all that came after it. It belongs to one goroutine.
type Tape struct {
	*View
	start, end uint64
	// left is what is still to be played, deltas tell what was.
	left   [][]change
	deltas []Delta
}

// Tape begins at seq, or as soon after it as the log reaches back.
func (c *Cluster) Tape(seq uint64) *Tape { return c.Moment().Tape(seq) }

// Tape is Cluster.Tape of the moment, which it takes over.
func (m *Moment) Tape(seq uint64) *Tape {
	end := m.view.seq
	seq = min(max(seq, m.oldest), end)
	m.view.rewind(m.log, seq)
	left := slices.Collect(m.log.From(after(seq)).Pieces())
	return &Tape{View: m.view, start: seq, end: end, left: left}
}

// Forward plays on to a position. It does not go back: false says that the
// position lies before the present one, or beyond the end.
func (t *Tape) Forward(to uint64) bool {
	if to < t.seq || to > t.end {
		return false
	}
	for step := t.next(to); len(step) > 0; step = t.next(to) {
		t.redo(step)
	}
	t.seq = to
	return true
}

// next takes the changes of the next number, if that is not beyond to.
func (t *Tape) next(to uint64) (step []change) {
	for len(t.left) > 0 {
		list := t.left[0]
		n := 0
		for n < len(list) && list[n].seq <= to && (n == 0 || list[n].seq == list[n-1].seq) &&
			(len(step) == 0 || list[n].seq == step[0].seq) {
			n++
		}
		step = append(step, list[:n]...)
		if n < len(list) {
			t.left[0] = list[n:]
			break
		}
		t.left = t.left[1:]
	}
	return step
}

// Since implements Log.
func (t *Tape) Since(seq uint64) (Deltas, bool) {
	if seq < t.start || seq > t.seq {
		return Deltas{}, false
	}
	from := sort.Search(len(t.deltas), func(i int) bool { return t.deltas[i].Seq > seq })
	return chunkqueue.Of(t.deltas[from:]), true
}

// redo does the changes of one number again: those of a row, or of an object.
func (t *Tape) redo(step []change) {
	t.seq = step[0].seq
	if o, ok := step[0].what.(*objectChange); ok {
		t.exchange(o.resource, o.before, o.after)
		kind := ObjectUpsert
		if o.after == nil {
			kind = ObjectRemove
		}
		t.tell(o.delta(kind, objectGroups[o.resource]))
		return
	}
	slot := step[0].slot
	for int(slot) >= len(t.rows) {
		t.rows = append(t.rows, nil)
	}
	row, pods, groups := t.redoRow(step)
	t.set(slot, row)
	if row != nil {
		t.tell(Delta{Kind: RowUpsert, Slot: slot, Groups: groups, Row: row})
	}
	for _, d := range pods {
		t.tell(d)
	}
	if row == nil {
		t.tell(Delta{Kind: RowRemove, Slot: slot, Groups: groups})
	}
}

// redoRow returns the row that comes of the changes, what they say of pods, and
// the groups of the row that changed.
func (t *Tape) redoRow(step []change) (row *Row, pods []Delta, groups abi.Groups) {
	slot := step[0].slot
	row = t.rows[slot]
	for i := range step {
		switch what := step[i].what.(type) {
		case *nodeChange:
			groups |= what.groups
			row = withNode(row, slot, what)
		case *Ref:
			pod := what.Pod()
			kind := PodRemoved
			if step[i].index == came {
				kind = PodPlaced
				row = row.With(pod)
			} else {
				row = row.Without(pod)
			}
			groups |= usageGroups(pod)
			pods = append(pods, Delta{Kind: kind, Slot: slot, Groups: pod.groups(), Pod: pod})
		}
	}
	return row, pods, groups
}

// withNode is the row with another node, nil without.
func withNode(row *Row, slot int32, n *nodeChange) *Row {
	if n.after == nil {
		return nil
	}
	next := &Row{Slot: slot}
	if row != nil {
		*next = *row
	}
	next.Node, next.Allocatable = n.after, resourcesOf(n.after.Status.Allocatable, MaxAllocatable)
	return next
}

func (t *Tape) tell(d Delta) {
	d.Seq = t.seq
	t.deltas = append(t.deltas, d)
}
