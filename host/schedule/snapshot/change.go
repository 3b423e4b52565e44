package snapshot

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/chunkqueue"

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

// changes is the bounded log, of which the oldest piece goes when all takes more
// than the limit. Memory is taken as it fills.
type changes struct {
	limit int
	list  chunkqueue.List[change]
	// start is the oldest position that can be told.
	start uint64
}

const (
	stretchLength = 1024
	changeBytes   = 40
	nodeBytes     = 48
	objectBytes   = 96
)

func newChanges(limit int, start uint64) changes {
	return changes{limit: limit, list: chunkqueue.New[change](stretchLength, changeBytes), start: start}
}

// trim drops from the old end what is too much, beside bytes of others that
// count in the limit.
func (l *changes) trim(beside int) {
	for l.list.Bytes()+beside > l.limit && l.drop() {
	}
}

// drop forgets the oldest piece; the newest stays.
func (l *changes) drop() bool {
	gone := l.list.Drop()
	if gone == nil {
		return false
	}
	l.start = gone[len(gone)-1].seq
	return true
}

// after says whether a change is behind seq.
func after(seq uint64) func(*change) bool { return func(c *change) bool { return c.seq > seq } }

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
