package snapshot

import "slices"

// table is the rows in their slots, nil where a slot is empty.
type table struct {
	rows []*Row
	pods int // on the rows
}

// set puts a row in a slot, nil to empty it.
func (t *table) set(slot int32, row *Row) {
	t.pods += row.numPods() - t.rows[slot].numPods()
	t.rows[slot] = row
}

func (t *table) clone() table { return table{rows: slices.Clone(t.rows), pods: t.pods} }

// Row implements Log.
func (t *table) Row(slot int32) *Row {
	if slot < 0 || int(slot) >= len(t.rows) {
		return nil
	}
	return t.rows[slot]
}

// Slots implements Log.
func (t *table) Slots() int32 { return int32(len(t.rows)) }

// Pods implements Log.
func (t *table) Pods() int { return t.pods }

// numPods is how many pods stand on the row, none if there is no row.
func (r *Row) numPods() int {
	if r == nil {
		return 0
	}
	return len(r.Pods)
}
