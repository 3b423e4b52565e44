package placed

import (
	"slices"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
)

// maxIdle is how many classes without pods are kept: pods come back.
const maxIdle = 256

// Term is a term that a placed pod carries, with the weight that it counts by.
type Term struct {
	Pod    *facts.PodTerm
	Weight int64
}

// effect is what one pod of a class adds to a tally.
type effect struct {
	tally  *Tally
	weight int64
}

// class is what pods have in common.
type class struct {
	namespace facts.Symbol
	labels    []facts.Pair
	carried   []effect
	asked     []effect
	hash      uint64
	next      int32 // of those with a like hash, noClass at the end
	listed    int32 // the first of its entries in pairs
	pods      int
	free      bool
}

// pageSize is how many classes are kept in one piece: a table that grew by moving
// would take its size three times while it moves.
const pageSize = 256

// class is that of an id.
func (x *Index) class(id int32) *class { return &x.pages[id/pageSize][id%pageSize] }

// noClass is the id of none.
const noClass = -1

// held is how many pods of a class a row has.
type held struct {
	class int32
	n     int64
}

// classOf finds the pod's class, or makes it.
func (x *Index) classOf(pod *sdk.Pod, terms []Term) int32 {
	for int(pod.Kept) >= len(x.told) {
		x.told = append(x.told, noClass)
	}
	id := &x.told[pod.Kept]
	if !pod.Again || *id == noClass {
		*id = x.find(pod.Namespace, pod.Labels.Pairs, terms)
	}
	return *id
}

func (x *Index) find(namespace facts.Symbol, labels []facts.Pair, terms []Term) int32 {
	x.carry(terms)
	h := mix(hashPairs(seed, labels), uint32(namespace))
	for i := range x.effects {
		h = mix(h, uint32(x.effects[i].tally.hash)) ^ uint64(x.effects[i].weight)
	}
	for id := x.firstBy(h); id != noClass; id = x.class(id).next {
		c := x.class(id)
		if c.hash == h && c.namespace == namespace && slices.Equal(c.labels, labels) && slices.Equal(c.carried, x.effects) {
			return id
		}
	}
	return x.newClass(class{
		namespace: namespace, labels: slices.Clone(labels), carried: slices.Clone(x.effects), hash: h,
	})
}

// carry fills x.effects with the tallies of terms.
func (x *Index) carry(terms []Term) {
	x.effects = x.effects[:0]
	for _, t := range terms {
		x.single[0] = *t.Pod
		x.effects = append(x.effects, effect{x.carriedTally(x.single[:], t.Pod.TopologyKey), t.Weight})
	}
}

func (x *Index) carriedTally(terms []facts.PodTerm, key facts.Symbol) *Tally {
	h := hashTerms(key, terms)
	for t := x.carriedBy.first(h); t != nil; t = t.next {
		if t.hash == h && t.Topology.key == key && slices.EqualFunc(t.terms, terms, sameTerm) {
			return t
		}
	}
	t := x.newTally(key, terms, h)
	x.carriedBy.add(t, x.carried)
	x.carried = append(x.carried, t)
	x.version++
	return t
}

func (x *Index) newClass(c class) int32 {
	for _, e := range c.carried {
		e.tally.users++
	}
	for _, t := range x.asked {
		if x.Meets(t.terms, c.namespace, c.labels) {
			c.asked = append(c.asked, effect{t, 1})
		}
	}
	id := x.numClasses
	if n := len(x.freeIDs); n > 0 {
		id, x.freeIDs = x.freeIDs[n-1], x.freeIDs[:n-1]
		*x.class(id) = c
	} else {
		if x.numClasses++; id%pageSize == 0 {
			x.pages = append(x.pages, new([pageSize]class))
		}
		*x.class(id) = c
	}
	x.link(id)
	x.class(id).listed = x.pairs.add(id, c.labels)
	x.idle++
	return id
}

// firstBy is the first class whose hash is like h.
func (x *Index) firstBy(h uint64) int32 {
	if len(x.byHash) == 0 {
		return noClass
	}
	return x.byHash[h&uint64(len(x.byHash)-1)]
}

// link makes a class known by its hash.
func (x *Index) link(id int32) {
	if int(x.numClasses) > len(x.byHash) {
		x.byHash = make([]int32, max(2*len(x.byHash), minHashes))
		for i := range x.byHash {
			x.byHash[i] = noClass
		}
		for other := range x.numClasses {
			if other != id && !x.class(other).free {
				x.chain(other)
			}
		}
	}
	x.chain(id)
}

func (x *Index) chain(id int32) {
	c := x.class(id)
	first := &x.byHash[c.hash&uint64(len(x.byHash)-1)]
	c.next, *first = *first, id
}

// unlink takes a class out again.
func (x *Index) unlink(id int32) {
	c := x.class(id)
	at := &x.byHash[c.hash&uint64(len(x.byHash)-1)]
	for *at != id {
		at = &x.class(*at).next
	}
	*at = c.next
}

// tidy forgets classes without pods, and the terms that only they carried.
func (x *Index) tidy() {
	if x.idle <= maxIdle {
		return
	}
	for id := range x.numClasses {
		c := x.class(id)
		if c.pods > 0 || c.free {
			continue
		}
		for _, e := range c.carried {
			e.tally.users--
		}
		x.unlink(id)
		x.pairs.remove(c.listed)
		*c = class{free: true}
		x.freeIDs = append(x.freeIDs, id)
	}
	x.idle, x.told = 0, x.told[:0]
	x.dropCarried()
}

func (x *Index) dropCarried() {
	kept := x.carried[:0]
	for _, t := range x.carried {
		if t.users > 0 {
			kept = append(kept, t)
			continue
		}
		x.carriedBy.remove(t)
		x.drop(t)
	}
	clear(x.carried[len(kept):])
	x.carried = kept
	x.version++
}

func without[T comparable](list []T, v T) []T {
	if i := slices.Index(list, v); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
