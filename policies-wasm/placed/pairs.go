package placed

import (
	"math"

	"github.com/berth-dev/berth/sdk/facts"
)

// pairs lists the classes that have a label, in chains by its hash, so that a term
// which asks for a label's value looks at few of the classes. Like tallies it is no map.
type pairs struct {
	heads []int32 // the first entry of each chain, from 1 on; a power of two long
	pages []*[pageSize]pairEntry
	n     int32 // entries that were ever in use
	free  int32 // the first of those that are not, 0 for none
}

// pairEntry is a label of a class. It is taken out of its chain by what is before it,
// since ten thousand classes may have a label in common; also is another label of the
// same class. All are 0 for none.
type pairEntry struct {
	hash                    uint32
	class, next, prev, also int32
}

func hashPair(p facts.Pair) uint32 {
	h := mix(mix(seed, uint32(p.Key)), uint32(p.Value))
	return uint32(h ^ h>>32)
}

func (p *pairs) entry(id int32) *pairEntry { return &p.pages[(id-1)/pageSize][(id-1)%pageSize] }

func (p *pairs) head(hash uint32) *int32 { return &p.heads[hash&uint32(len(p.heads)-1)] }

// add lists a class under its labels, and returns the first of the entries, for remove.
func (p *pairs) add(class int32, labels []facts.Pair) (first int32) {
	for _, l := range labels {
		id := p.take()
		e := p.entry(id)
		e.hash, e.class, e.also = hashPair(l), class, first
		p.chain(id)
		first = id
	}
	return first
}

// take finds an entry that is not in use.
func (p *pairs) take() int32 {
	if id := p.free; id != 0 {
		p.free = p.entry(id).next
		return id
	}
	if p.n%pageSize == 0 {
		p.pages = append(p.pages, new([pageSize]pairEntry))
	}
	if p.n++; int(p.n) > len(p.heads) {
		p.rehash()
	}
	return p.n
}

// rehash makes twice as many chains for those that are there, all but the newest.
func (p *pairs) rehash() {
	old := p.heads
	p.heads = make([]int32, max(2*len(old), minHashes))
	for _, id := range old {
		for id != 0 {
			next := p.entry(id).next
			p.chain(id)
			id = next
		}
	}
}

func (p *pairs) chain(id int32) {
	e := p.entry(id)
	head := p.head(e.hash)
	if *head != 0 {
		p.entry(*head).prev = id
	}
	e.next, e.prev, *head = *head, 0, id
}

// remove takes a class from under its labels.
func (p *pairs) remove(first int32) {
	for id := first; id != 0; {
		e := p.entry(id)
		if e.prev != 0 {
			p.entry(e.prev).next = e.next
		} else {
			*p.head(e.hash) = e.next
		}
		if e.next != 0 {
			p.entry(e.next).prev = e.prev
		}
		e.next, p.free = p.free, id
		id = e.also
	}
}

// with appends the classes that have a label, and perhaps others and some twice: up
// to most of them.
func (p *pairs) with(l facts.Pair, to []int32, most int) []int32 {
	if len(p.heads) == 0 {
		return to
	}
	hash := hashPair(l)
	for id := *p.head(hash); id != 0 && len(to) < most; id = p.entry(id).next {
		if e := p.entry(id); e.hash == hash {
			to = append(to, e.class)
		}
	}
	return to
}

// candidates are classes among which all are that meet the terms, some of them
// perhaps twice: those that have the rarest label for which the terms ask, or else all.
// They are good until the next call.
func (x *Index) candidates(terms []facts.PodTerm) []int32 {
	best, other, found := x.maybe[0][:0], x.maybe[1], false
	for i := range terms {
		reqs := terms[i].Selector.Reqs
		for k := range reqs {
			if reqs[k].Op != facts.In || len(reqs[k].Values) != 1 {
				continue
			}
			label := facts.Pair{Key: reqs[k].Key, Value: reqs[k].Values[0]}
			if !found {
				best, found = x.pairs.with(label, best, math.MaxInt), true
				continue
			}
			if other = x.pairs.with(label, other[:0], len(best)); len(other) < len(best) {
				best, other = other, best
			}
		}
	}
	if !found {
		for id := range x.numClasses {
			if !x.class(id).free {
				best = append(best, id)
			}
		}
	}
	x.maybe[0], x.maybe[1] = best, other
	return best
}
