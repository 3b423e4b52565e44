package snapshot

import (
	"slices"
	"sort"

	"github.com/berth-dev/berth/abi"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// change is one step of the log in the least form by which it can be undone
// and done again. What is a *Ref of a pod that came or went, a *nodeChange or
// an *objectChange.
type change struct {
	seq  uint64
	what any
	slot int32
	// index is where in its row a pod stood that went, -1 for one that came: it
	// stands last.
	index int32
}

const came = -1

// nodeChange exchanges a node; nil stands for none.
type nodeChange struct {
	before, after *v1.Node
	groups        abi.Groups
}

// objectChange exchanges a cluster object; nil stands for none.
type objectChange struct {
	resource      string
	before, after runtime.Object
}

// changes is the bounded log: stretches of changes, of which the oldest goes
// when all take more than the limit. Memory is taken as it fills.
type changes struct {
	limit int
	// bytes is what all stretches take.
	bytes int
	// start is the oldest position that can be told.
	start     uint64
	stretches []*stretch
}

// stretch is a piece of the log. Its changes are only ever appended to, within
// their array: whoever holds a part of it may read on.
type stretch struct {
	changes []change
	bytes   int
}

const (
	stretchLength = 1024
	changeBytes   = 40
	nodeBytes     = 48
	objectBytes   = 96
)

// add appends a change, which keeps so many bytes alive beside itself.
func (l *changes) add(c change, holds int) {
	n := len(l.stretches)
	if n == 0 || len(l.stretches[n-1].changes) == stretchLength {
		l.stretches = append(l.stretches, &stretch{changes: make([]change, 0, stretchLength), bytes: stretchLength * changeBytes})
		l.bytes += stretchLength * changeBytes
		n++
	}
	s := l.stretches[n-1]
	s.changes = append(s.changes, c)
	s.bytes += holds
	l.bytes += holds
}

// trim drops from the old end what is too much, beside bytes of others that
// count in the limit.
func (l *changes) trim(beside int) {
	for l.bytes+beside > l.limit && l.drop() {
	}
}

// drop forgets the oldest stretch; the newest stays.
func (l *changes) drop() bool {
	if len(l.stretches) < 2 {
		return false
	}
	gone := l.stretches[0]
	l.stretches[0] = nil
	l.stretches = l.stretches[1:]
	l.bytes -= gone.bytes
	l.start = gone.changes[len(gone.changes)-1].seq
	return true
}

// forget drops all.
func (l *changes) forget(seq uint64) { *l = changes{limit: l.limit, start: seq} }

// held is what there is now, for somebody who reads it while the log goes on.
func (l *changes) held() [][]change {
	all := make([][]change, len(l.stretches))
	for i, s := range l.stretches {
		all[i] = slices.Clip(s.changes)
	}
	return all
}

// after is the place of the first change behind seq.
func after(all [][]change, seq uint64) (stretch, index int) {
	stretch = sort.Search(len(all), func(i int) bool { return all[i][len(all[i])-1].seq > seq })
	if stretch < len(all) {
		list := all[stretch]
		index = sort.Search(len(list), func(i int) bool { return list[i].seq > seq })
	}
	return stretch, index
}

// nodeWeight is about what a node takes that only the log holds.
func nodeWeight(n *v1.Node) int {
	if n == nil {
		return nodeBytes
	}
	return nodeBytes + 1280 + 5*n.Size()/2
}

// objectWeight is about what an object takes that only the log holds.
func objectWeight(o runtime.Object) int {
	if o, ok := o.(interface{ Size() int }); ok {
		return objectBytes + 768 + 5*o.Size()/2
	}
	return objectBytes
}
