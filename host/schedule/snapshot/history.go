package snapshot

import (
	"sort"

	"k8s.io/apimachinery/pkg/runtime"
)

// history is the bounded log of deltas. Deltas are appended to one slice, whose
// tail moves into a fresh one when it has grown to twice the limit: what was
// handed out by since stays as it was.
type history struct {
	limit  int
	seq    uint64
	deltas []Delta
	// before holds, delta by delta, what stood there before it.
	before []former
}

// former is the state that a delta replaced.
type former struct {
	row    *Row
	object runtime.Object
}

// add appends a delta under the present number.
func (h *history) add(d Delta, f former) {
	d.Seq = h.seq
	h.deltas = append(h.deltas, d)
	h.before = append(h.before, f)
}

// next begins a new number; deltas that belong together share one.
func (h *history) next() {
	h.seq++
	if len(h.deltas) < 2*h.limit {
		return
	}
	from := len(h.deltas) - h.limit
	for from < len(h.deltas) && h.deltas[from].Seq == h.deltas[from-1].Seq {
		from++
	}
	h.deltas = append(make([]Delta, 0, 2*h.limit), h.deltas[from:]...)
	h.before = append(make([]former, 0, 2*h.limit), h.before[from:]...)
}

// holds says whether everything after seq is still there.
func (h *history) holds(seq uint64) bool {
	if seq >= h.seq {
		return seq == h.seq
	}
	return len(h.deltas) > 0 && h.deltas[0].Seq <= seq+1
}

// after is the index of the first delta behind seq.
func (h *history) after(seq uint64) int {
	n := len(h.deltas)
	for i := n; i > 0 && i > n-16; i-- {
		if h.deltas[i-1].Seq <= seq {
			return i
		}
	}
	return sort.Search(n, func(i int) bool { return h.deltas[i].Seq > seq })
}

func (h *history) since(seq uint64) ([]Delta, bool) {
	if !h.holds(seq) {
		return nil, false
	}
	n := len(h.deltas)
	return h.deltas[h.after(seq):n:n], true
}
