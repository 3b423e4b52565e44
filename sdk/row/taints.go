package row

import (
	"slices"

	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/facts"
)

// TaintSetID names a list of taints that rows share. 0 is the empty list.
type TaintSetID uint32

// taintSets holds each distinct list of taints once, with a count of the rows
// that have it, so that a pod's tolerations are tried once a list and not once
// a row. A list that no row has gives its place to the next new one.
type taintSets struct {
	list    [][]facts.Taint
	rows    []int32
	scratch []facts.Taint
	reader  fb.Taint
}

func (t *taintSets) init() {
	t.list, t.rows = make([][]facts.Taint, 1), make([]int32, 1)
}

func (t *taintSets) replace(old TaintSetID, syms *facts.Symbols, r *fb.Taints) TaintSetID {
	t.scratch = t.scratch[:0]
	taint := &t.reader
	for i, n := 0, r.ItemsLength(); i < n; i++ {
		r.Items(taint, i)
		t.scratch = append(t.scratch, facts.Taint{
			Key: syms.InternBytes(taint.Key()), Value: syms.InternBytes(taint.Value()), Effect: facts.Effect(taint.Effect()),
		})
	}
	id := t.acquire(t.scratch)
	t.release(old)
	return id
}

func (t *taintSets) acquire(taints []facts.Taint) TaintSetID {
	if len(taints) == 0 {
		return 0
	}
	free := 0
	for id := 1; id < len(t.list); id++ {
		if t.rows[id] == 0 {
			free = id
			continue
		}
		if slices.Equal(t.list[id], taints) {
			t.rows[id]++
			return TaintSetID(id)
		}
	}
	if free == 0 {
		free = len(t.list)
		t.list, t.rows = append(t.list, nil), append(t.rows, 0)
	}
	t.list[free], t.rows[free] = slices.Clone(taints), 1
	return TaintSetID(free)
}

// retain counts one more row for a set.
func (t *taintSets) retain(id TaintSetID) {
	if id != 0 {
		t.rows[id]++
	}
}

// release counts one row less for a set, and returns the empty set.
func (t *taintSets) release(id TaintSetID) TaintSetID {
	if id != 0 {
		t.rows[id]--
	}
	return 0
}
