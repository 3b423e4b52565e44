package snapshot

import "sort"

// Tape is a stretch of the log that can be played: the cluster as it was at
// one position, and all that came after it. It belongs to one goroutine.
type Tape struct {
	*View
	start  uint64
	deltas []Delta
}

// Tape begins at seq, or as soon after it as the log reaches back.
func (c *Cluster) Tape(seq uint64) *Tape {
	if !c.history.holds(seq) {
		seq = c.history.seq
		if len(c.history.deltas) > 0 {
			seq = c.history.deltas[0].Seq - 1
		}
	}
	v, _ := c.At(seq)
	n := len(c.history.deltas)
	return NewTape(v, c.history.deltas[c.history.after(seq):n:n])
}

// NewTape begins at a view, which it takes over, and goes on by deltas.
func NewTape(v *View, deltas []Delta) *Tape {
	v.history.deltas = nil
	return &Tape{View: v, start: v.history.seq, deltas: deltas}
}

// Forward plays on to a position. It does not go back: false says that the
// position lies before the present one, or beyond the end.
func (t *Tape) Forward(to uint64) bool {
	now := t.history.seq
	if n := len(t.deltas); to < now || to > now && (n == 0 || to > t.deltas[n-1].Seq) {
		return false
	}
	for at := t.index(now); at < len(t.deltas) && t.deltas[at].Seq <= to; at++ {
		t.redo(&t.deltas[at])
	}
	t.history.seq = to
	return true
}

// index is the first delta behind seq.
func (t *Tape) index(seq uint64) int {
	return sort.Search(len(t.deltas), func(i int) bool { return t.deltas[i].Seq > seq })
}

// Since implements Log.
func (t *Tape) Since(seq uint64) ([]Delta, bool) {
	if seq < t.start || seq > t.history.seq {
		return nil, false
	}
	from, to := t.index(seq), t.index(t.history.seq)
	return t.deltas[from:to:to], true
}

func (v *View) redo(d *Delta) {
	switch d.Kind {
	case RowUpsert:
		for int(d.Slot) >= len(v.rows) {
			v.rows = append(v.rows, nil)
		}
		v.rows[d.Slot] = d.Row
	case RowRemove:
		v.rows[d.Slot] = nil
	case ObjectUpsert:
		v.keep(d)
	case ObjectRemove:
		v.undoObject(d, nil)
	}
}
