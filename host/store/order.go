package store

import (
	"cmp"
	"slices"

	"github.com/google/btree"
)

// degree of the trees: what a reader has a snapshot of is copied when it changes,
// about three nodes of up to 63 pointers.
const degree = 32

func lessEntry(a, b *entry) bool { return a.compare(b.namespace, b.name) < 0 }

type tree = btree.BTreeG[*entry]

// maxPending bounds what a reader has to put in order, and which old states are
// kept alive for that.
const maxPending = 1024

// snapshot is the state of a resource from revision rev until its next event.
type snapshot struct {
	rev     int64
	tree    *tree
	indexes []*indexTree
}

// IndexFunc names the values under which an object is found again.
type IndexFunc func(Object) []string

type index struct {
	name string
	fn   IndexFunc
	tree *indexTree
}

type indexTree = btree.BTreeG[indexed]

type indexed struct {
	value string
	entry *entry
}

func lessIndexed(a, b indexed) bool {
	if c := cmp.Compare(a.value, b.value); c != 0 {
		return c < 0
	}
	return lessEntry(a.entry, b.entry)
}

// snapshot returns the state that readers see.
func (r *resource) snapshot() *snapshot {
	if s := r.current.Load(); s != nil {
		return s
	}
	r.order.Lock()
	defer r.order.Unlock()
	s := &snapshot{rev: r.absorb()}
	s.tree = r.tree.Clone()
	for _, ix := range r.indexes {
		s.indexes = append(s.indexes, ix.tree.Clone())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rev.Load() == s.rev && len(r.pending) == 0 {
		r.current.Store(s)
	}
	return s
}

// tidy absorbs what is pending from so many changes on.
func (r *resource) tidy(from int) {
	r.mu.RLock()
	n := len(r.pending)
	r.mu.RUnlock()
	if n < from {
		return
	}
	r.order.Lock()
	defer r.order.Unlock()
	r.absorb()
}

// absorb brings tree and indexes to the revision that it returns. Called with
// order held.
func (r *resource) absorb() int64 {
	r.mu.Lock()
	rev, pending := r.rev.Load(), r.pending
	r.pending = nil
	r.mu.Unlock()
	for _, c := range merge(pending) {
		switch {
		case c.next != nil:
			r.tree.ReplaceOrInsert(c.next)
		case c.prev != nil:
			r.tree.Delete(c.prev)
		}
		for _, ix := range r.indexes {
			ix.replace(c.prev, c.next)
		}
	}
	return rev
}

// merge makes one of all changes to a state and to what came in its place.
func merge(changes []replacement) []replacement {
	if !slices.ContainsFunc(changes, func(c replacement) bool { return c.prev != nil }) {
		return changes
	}
	at := make(map[*entry]int, len(changes))
	merged := changes[:0]
	for _, c := range changes {
		i, known := at[c.prev]
		if known {
			merged[i].next = c.next
		} else {
			i, merged = len(merged), append(merged, c)
		}
		if c.next != nil {
			at[c.next] = i
		}
	}
	return merged
}

// replace takes prev out where next does not take its place: most writes leave
// an object where it was.
func (ix *index) replace(prev, next *entry) {
	var values []string
	if next != nil {
		values = ix.fn(next.object())
	}
	if prev != nil {
		for _, value := range ix.fn(prev.object()) {
			if !slices.Contains(values, value) {
				ix.tree.Delete(indexed{value, prev})
			}
		}
	}
	for _, value := range values {
		ix.tree.ReplaceOrInsert(indexed{value, next})
	}
}
