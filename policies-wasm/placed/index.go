package placed

import (
	"slices"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/row"
)

const (
	// maxAsked is how many tallies of Matching are kept.
	maxAsked = 64
	// maxMemo is how many kinds of pods Carried remembers its answer for; a power
	// of two.
	maxMemo = 1024
	// minHashes is how long a table by hashes is at first; a power of two.
	minHashes = 64
)

// Index holds who is where, and the tallies. A policy passes on what the SDK
// tells it of rows, pods and namespaces.
//
// It is large because each change that a policy can be told of is followed into
// several tallies, by small methods.
type Index struct {
	rows *row.Table
	live []bool
	// Live is how many rows there are.
	Live  int
	slots [][]held

	pages      []*[pageSize]class
	numClasses int32
	// told are the classes of the pods that were told last, by Pod.Kept; noClass
	// where it may be gone.
	told []int32
	// byHash has the first class of each chain of like hashes; a power of two long.
	byHash  []int32
	pairs   pairs
	maybe   [2][]int32
	freeIDs []int32
	idle    int // classes without pods

	topologies []*Topology
	asked      []*Tally
	carried    []*Tally
	carriedBy  tallies
	clock      uint64
	// changed is the clock at the last change: no tally that was used before is in
	// use, and the counts of one that is forgotten may serve another, as spare.
	changed uint64
	spare   []int64

	spaces map[facts.Symbol][]facts.Pair

	// version changes whenever what Carried answers may change.
	version uint64
	memos   []memo

	effects []effect
	single  [1]facts.PodTerm
	// met are the classes that matched says are met, while a tally is filled.
	matched []bool
	met     []int32
	found   []*Tally
}

// memo is an answer of Carried.
type memo struct {
	namespace facts.Symbol
	labels    []facts.Pair
	version   uint64
	tallies   []*Tally
}

// New makes an index over rows.
func New(rows *row.Table) *Index {
	return &Index{
		rows: rows, spaces: map[facts.Symbol][]facts.Pair{},
	}
}

func (x *Index) ensure(slot int32) {
	for int(slot) >= len(x.slots) {
		x.slots, x.live = append(x.slots, nil), append(x.live, false)
	}
}

// RowAdded counts in the pods of a row.
func (x *Index) RowAdded(slot int32) {
	x.ensure(slot)
	x.live[slot] = true
	x.Live++
	for _, t := range x.topologies {
		t.enter(slot, x.rows)
	}
	x.count(slot, 1)
}

// RowRemoved takes them out again.
func (x *Index) RowRemoved(slot int32) {
	x.count(slot, -1)
	for _, t := range x.topologies {
		t.leave(slot)
	}
	x.live[slot] = false
	x.Live--
}

func (x *Index) count(slot int32, sign int64) {
	for _, h := range x.slots[slot] {
		x.affect(x.class(h.class), slot, sign*h.n)
	}
}

func (x *Index) affect(c *class, slot int32, n int64) {
	x.changed = x.clock
	for i := range c.carried {
		c.carried[i].tally.add(slot, n*c.carried[i].weight)
	}
	for i := range c.asked {
		c.asked[i].tally.add(slot, n)
	}
}

// Place counts a pod on a row, with the terms that it carries.
func (x *Index) Place(slot int32, pod *sdk.Pod, terms []Term) {
	x.ensure(slot)
	id := x.classOf(pod, terms)
	c := x.class(id)
	if c.pods++; c.pods == 1 {
		x.idle--
	}
	list := x.slots[slot]
	at := slices.IndexFunc(list, func(h held) bool { return h.class == id })
	if at < 0 {
		x.slots[slot] = append(list, held{id, 1})
	} else {
		list[at].n++
	}
	if x.live[slot] {
		x.affect(c, slot, 1)
	}
}

// Remove takes back what Place counted.
func (x *Index) Remove(slot int32, pod *sdk.Pod, terms []Term) {
	x.ensure(slot)
	id := x.classOf(pod, terms)
	list := x.slots[slot]
	at := slices.IndexFunc(list, func(h held) bool { return h.class == id })
	if at < 0 {
		return
	}
	c := x.class(id)
	if list[at].n--; list[at].n == 0 {
		list[at] = list[len(list)-1]
		x.slots[slot] = list[:len(list)-1]
	}
	if x.live[slot] {
		x.affect(c, slot, -1)
	}
	if c.pods--; c.pods == 0 {
		x.idle++
		x.tidy()
	}
}

// Namespace takes in the labels of a namespace, and whether it is there.
func (x *Index) Namespace(o *facts.Object, there bool) {
	if o.Resource != facts.ResourceNamespaces {
		return
	}
	labels, known := x.spaces[o.Name]
	if known == there && slices.Equal(labels, o.Labels.Pairs) {
		return
	}
	delete(x.spaces, o.Name)
	if there {
		x.spaces[o.Name] = o.Labels.Pairs
	}
	x.version++
	for i := len(x.asked) - 1; i >= 0; i-- {
		if x.asked[i].spaces {
			x.forget(i)
		}
	}
}

// Matching counts the pods that meet all of terms, by key; by node if key is
// NoSymbol. It is valid until the next change.
func (x *Index) Matching(key facts.Symbol, terms []facts.PodTerm) *Tally {
	x.clock++
	h := hashTerms(key, terms)
	for _, t := range x.asked {
		if t.hash == h && t.Topology.key == key && slices.EqualFunc(t.terms, terms, sameTerm) {
			t.used = x.clock
			return t
		}
	}
	if len(x.asked) == maxAsked {
		x.forgetOldest()
	}
	t := x.newTally(key, terms, h)
	t.used = x.clock
	t.Counts, x.spare = x.spare[:0], nil
	x.asked = append(x.asked, t)
	x.fill(t)
	return t
}

// fill counts what is there already.
func (x *Index) fill(t *Tally) {
	for len(x.matched) < int(x.numClasses) {
		x.matched = append(x.matched, false)
	}
	any, met := false, x.met[:0]
	for _, id := range x.candidates(t.terms) {
		c := x.class(id)
		if !x.matched[id] && x.Meets(t.terms, c.namespace, c.labels) {
			c.asked = append(c.asked, effect{t, 1})
			x.matched[id], any, met = true, any || c.pods > 0, append(met, id)
		}
	}
	if x.met = met; any {
		x.countMatched(t)
	}
	for _, id := range met {
		x.matched[id] = false
	}
}

func (x *Index) countMatched(t *Tally) {
	for slot, list := range x.slots {
		if !x.live[slot] {
			continue
		}
		for _, h := range list {
			if x.matched[h.class] {
				t.add(int32(slot), h.n)
			}
		}
	}
}

func (x *Index) forgetOldest() {
	oldest := 0
	for i, t := range x.asked {
		if t.used < x.asked[oldest].used {
			oldest = i
		}
	}
	x.forget(oldest)
}

func (x *Index) forget(at int) {
	t := x.asked[at]
	for _, id := range x.candidates(t.terms) {
		c := x.class(id)
		c.asked = slices.DeleteFunc(c.asked, func(e effect) bool { return e.tally == t })
	}
	x.asked = slices.Delete(x.asked, at, at+1)
	x.drop(t)
	if t.used <= x.changed && cap(t.Counts) > cap(x.spare) {
		x.spare = t.Counts
	}
}

// Carried returns the tallies of the terms that placed pods carry and the pod
// meets, of those that count anything. It is valid until the next call.
func (x *Index) Carried(pod *sdk.Pod) []*Tally {
	x.found = x.found[:0]
	if len(x.carried) == 0 {
		return nil
	}
	for _, t := range x.carriedFor(pod) {
		if t.Nonzero > 0 {
			x.found = append(x.found, t)
		}
	}
	return x.found
}

func (x *Index) carriedFor(pod *sdk.Pod) []*Tally {
	h := mix(hashPairs(seed, pod.Labels.Pairs), uint32(pod.Namespace))
	if x.memos == nil {
		x.memos = make([]memo, maxMemo)
	}
	m := &x.memos[h%maxMemo]
	if m.version == x.version && m.namespace == pod.Namespace && slices.Equal(m.labels, pod.Labels.Pairs) {
		return m.tallies
	}
	m.version, m.namespace = x.version, pod.Namespace
	m.labels = append(m.labels[:0], pod.Labels.Pairs...)
	m.tallies = m.tallies[:0]
	for _, t := range x.carried {
		if x.meets(&t.terms[0], pod.Namespace, pod.Labels.Pairs, false) {
			m.tallies = append(m.tallies, t)
		}
	}
	return m.tallies
}

func (x *Index) newTally(key facts.Symbol, terms []facts.PodTerm, hash uint64) *Tally {
	t := &Tally{Topology: x.Topology(key), hash: hash, spaces: looksAtSpaces(terms)}
	t.Topology.users++
	t.terms = make([]facts.PodTerm, len(terms))
	for i := range terms {
		t.terms[i] = terms[i].Clone()
	}
	return t
}

// Topology parts the rows by key. It is kept while a tally is on it.
func (x *Index) Topology(key facts.Symbol) *Topology {
	for _, t := range x.topologies {
		if t.key == key {
			return t
		}
	}
	t := newTopology(key)
	t.grow(len(x.live))
	for slot, live := range x.live {
		if live {
			t.enter(int32(slot), x.rows)
		}
	}
	x.topologies = append(x.topologies, t)
	return t
}

func (x *Index) drop(t *Tally) {
	if t.Topology.users--; t.Topology.users == 0 {
		x.topologies = without(x.topologies, t.Topology)
	}
}
