package row

import (
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/internal/text"
)

// blockRows is how many rows are looked up together for a simple face.
const blockRows = 64

// request is a resource that a policy asks for.
type request struct {
	place uint64
	// first is where the values of a block of rows begin.
	first uint32
}

// rowAsks are amounts of the rows of a block.
type rowAsks struct {
	table  [text.Places]request
	values [facts.MaxAsked * blockRows]int64
	names  [facts.MaxAsked]string
	n      int
}

// add gives a resource its place.
func (a *rowAsks) add(resource string) (k int) {
	k = a.n
	a.names[k] = resource
	a.n++
	if home := &a.table[text.Place(resource)]; home.place == 0 {
		*home = request{text.Address(resource), uint32(k * blockRows)}
	}
	return k
}

// find is the place of a resource, -1 if it has none.
func (a *rowAsks) find(resource string) int {
	for k := range a.names[:a.n] {
		if text.Address(a.names[k]) == text.Address(resource) {
			return k
		}
	}
	return -1
}

// begin goes to a block of rows, and fetches what was asked for of others.
func (n *Node) begin(slots []int32) {
	n.block, n.follow = slots, follow(slots)
	allocatable, requested := n.rows.allocatable(), n.rows.requested()
	for k := range n.allocatable.n {
		n.fetch(&n.allocatable, k, &allocatable)
	}
	for k := range n.requested.n {
		n.fetch(&n.requested, k, &requested)
	}
}

// follow says whether slots follow one another.
func follow(slots []int32) bool {
	const several = 4
	at := slots[0]
	for ; len(slots) >= several; at, slots = at+several, slots[several:] {
		if s := slots[:several]; s[0] != at || s[1] != at+1 || s[2] != at+2 || s[3] != at+3 {
			return false
		}
	}
	for i, slot := range slots {
		if slot != at+int32(i) {
			return false
		}
	}
	return true
}

// fetch fills in what the rows of the block have of the k-th resource.
func (n *Node) fetch(a *rowAsks, k int, from *amounts) {
	values := a.values[k*blockRows:][:len(n.block)]
	of := n.rows.Symbols.ByAddress(a.names[k])
	column := from.column(of)
	switch {
	case from.lists == nil || column == nil && from.scalars.all():
		clear(values)
	case column == nil:
		for i, slot := range n.block {
			values[i] = facts.ScalarValue(from.lists[slot], of.Symbol())
		}
	case n.follow:
		copy(values, column[n.block[0]:])
	default:
		for i, slot := range n.block {
			values[i] = column[slot]
		}
	}
}

// seek is what the row has of a resource that is not where it is looked for first.
func (n *Node) seek(a *rowAsks, resource string, from amounts) int64 {
	k := a.find(resource)
	if k < 0 && a.n < facts.MaxAsked && text.HasAddress(resource) && len(n.block) > 0 {
		k = a.add(resource)
		n.fetch(a, k, &from)
	}
	if k >= 0 {
		return a.values[uint32(k*blockRows)+n.i]
	}
	if from.lists == nil {
		return 0
	}
	has := from.columns.At(n.slot)
	return n.rows.Symbols.ByAddress(resource).Of(&has, from.lists[n.slot])
}

// Cursor goes over rows by blocks, for policies that judge one node at a time.
type Cursor struct{ node Node }

// Cursor makes the table keep what is asked for by name in columns; it is made
// before there are rows.
func (r *Table) Cursor() *Cursor {
	r.named = true
	return &Cursor{Node{rows: r}}
}

// Begin goes to the next block, and says how many of slots are in it.
func (c *Cursor) Begin(slots []int32) int {
	n := min(len(slots), blockRows)
	c.node.begin(slots[:n])
	return n
}

// End goes off the last block.
func (c *Cursor) End() { c.node.block = nil }

// Node is the one node that the cursor shows.
func (c *Cursor) Node() *Node { return &c.node }

// At goes to the i-th row of the block, which is at slot.
func (c *Cursor) At(slot int32, i int) { c.node.slot, c.node.i = slot, uint32(i) }
