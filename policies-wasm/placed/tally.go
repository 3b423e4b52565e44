package placed

import "github.com/berth-dev/berth/sdk/facts"

// Tally counts pods, or sums weights of theirs, by the parts of a topology.
type Tally struct {
	Topology *Topology
	// Counts by part; as long as the topology, or shorter where zeros follow.
	Counts []int64
	// Nonzero is in how many parts there is anything.
	Nonzero int

	terms []facts.PodTerm
	hash  uint64
	next  *Tally // carried, with a like hash
	used  uint64
	users int // classes that carry the term
	// spaces says that the labels of namespaces matter.
	spaces bool
}

// At is what is counted in the row's part, 0 where the row has none.
func (t *Tally) At(slot int32) int64 {
	d := t.Topology.Domain[slot]
	if d < 0 || int(d) >= len(t.Counts) {
		return 0
	}
	return t.Counts[d]
}

// AddTo adds what is counted in the part of each slot, times weight, to sums.
func (t *Tally) AddTo(sums []int64, slots []int32, weight int64) {
	domains, counts := t.Topology.Domain, t.Counts
	for i, slot := range slots {
		if d := domains[slot]; uint32(d) < uint32(len(counts)) {
			sums[i] += weight * counts[d]
		}
	}
}

// Of is what is counted in a part.
func (t *Tally) Of(domain int32) int64 {
	if int(domain) >= len(t.Counts) {
		return 0
	}
	return t.Counts[domain]
}

func (t *Tally) add(slot int32, n int64) {
	d := t.Topology.Domain[slot]
	if d < 0 {
		return
	}
	if int(d) >= len(t.Counts) {
		t.grow(max(t.Topology.Len(), int(d)+1))
	}
	before := t.Counts[d]
	t.Counts[d] += n
	if before == 0 && n != 0 {
		t.Nonzero++
	}
	if before != 0 && t.Counts[d] == 0 {
		t.Nonzero--
	}
}

// grow makes room for n parts, in one piece: what TinyGo makes on the way to a longer
// slice is garbage, of tens of kilobytes where parts are nodes.
func (t *Tally) grow(n int) {
	counts := t.Counts
	if n > cap(counts) {
		counts = make([]int64, n)
		copy(counts, t.Counts)
	} else {
		counts = counts[:n]
		clear(counts[len(t.Counts):])
	}
	t.Counts = counts
}
