package placed

import (
	"slices"

	"github.com/berth-dev/berth/sdk/facts"
)

const (
	seed  = 14695981039346656037
	prime = 1099511628211
)

func mix(h uint64, v uint32) uint64 { return (h ^ uint64(v)) * prime }

func hashPairs(h uint64, pairs []facts.Pair) uint64 {
	for i := range pairs {
		h = mix(mix(h, uint32(pairs[i].Key)), uint32(pairs[i].Value))
	}
	return h
}

func hashSelector(h uint64, s *facts.Selector) uint64 {
	if !s.Present {
		return mix(h, 1)
	}
	for i := range s.Reqs {
		r := &s.Reqs[i]
		h = mix(mix(h, uint32(r.Key)), uint32(r.Op))
		for _, v := range r.Values {
			h = mix(h, uint32(v))
		}
	}
	return mix(h, 2)
}

func hashTerms(key facts.Symbol, terms []facts.PodTerm) uint64 {
	h := mix(seed, uint32(key))
	for i := range terms {
		t := &terms[i]
		h = hashSelector(hashSelector(h, &t.Selector), &t.NamespaceSelector)
		for _, n := range t.Namespaces {
			h = mix(h, uint32(n))
		}
	}
	return h
}

func sameSelector(a, b *facts.Selector) bool {
	return a.Present == b.Present && slices.EqualFunc(a.Reqs, b.Reqs, func(x, y facts.Requirement) bool {
		return x.Key == y.Key && x.Op == y.Op && slices.Equal(x.Values, y.Values)
	})
}

// sameTerm leaves weight and topology key aside: a tally has its own.
func sameTerm(a, b facts.PodTerm) bool {
	return sameSelector(&a.Selector, &b.Selector) && sameSelector(&a.NamespaceSelector, &b.NamespaceSelector) &&
		slices.Equal(a.Namespaces, b.Namespaces)
}

// looksAtSpaces: the empty selector takes every namespace, known or not.
func looksAtSpaces(terms []facts.PodTerm) bool {
	for i := range terms {
		if s := &terms[i].NamespaceSelector; s.Present && len(s.Reqs) > 0 {
			return true
		}
	}
	return false
}

// Meets says whether a pod meets all of another's terms. An asked term selects
// among the namespaces that there are; that of a placed pod looks at the labels
// of the pod's namespace, and takes one that is not known for bare of labels.
func (x *Index) Meets(terms []facts.PodTerm, namespace facts.Symbol, labels []facts.Pair) bool {
	for i := range terms {
		if !x.meets(&terms[i], namespace, labels, true) {
			return false
		}
	}
	return len(terms) > 0
}

func (x *Index) meets(t *facts.PodTerm, namespace facts.Symbol, labels []facts.Pair, known bool) bool {
	return (slices.Contains(t.Namespaces, namespace) || x.selects(&t.NamespaceSelector, namespace, known)) &&
		t.Selector.Matches(x.rows.Symbols, labels)
}

func (x *Index) selects(s *facts.Selector, namespace facts.Symbol, known bool) bool {
	if !s.Present || len(s.Reqs) == 0 {
		return s.Present
	}
	labels, ok := x.spaces[namespace]
	if known && !ok {
		return false
	}
	return s.Matches(x.rows.Symbols, labels)
}
