package sdk

import (
	"math"
	"unsafe"
)

const (
	// blockRows is how many rows are looked up together for a simple face.
	blockRows = 64
	// maxAsked is how many resources are; a policy that asks for more pays for them.
	maxAsked = 8
	// notAsked is what is known of a resource that is asked for the first time.
	notAsked = math.MinInt64
)

// asks are the resources that a policy asks for, found by where their names lie.
// It has addresses as numbers: TinyGo notes each pointer that a function loads,
// which takes longer than all else that is done here. The texts stand in names
// too, so that no other gets the place of one.
type asks struct {
	table [maxNames]asked
	names [maxAsked]string
	n     int
}

type asked struct {
	at    uintptr
	size  uint32
	index uint32
	_     uint32 // 16 bytes in a guest
}

// index is the place of a resource, -1 if it was not asked for yet.
func (a *asks) index(resource string) int32 {
	at := uintptr(unsafe.Pointer(unsafe.StringData(resource)))
	for k := uint32(at) * 0x9e3779b1 >> 26; ; k++ {
		e := &a.table[k%maxNames]
		if e.size == 0 {
			return -1
		}
		if e.at == at && e.size == uint32(len(resource)) {
			return int32(e.index)
		}
	}
}

// add gives a resource a place, -1 if there is none left.
func (a *asks) add(resource string) int {
	if a.n == maxAsked || resource == "" {
		return -1
	}
	k := home(resource)
	for a.table[k%maxNames].size != 0 {
		k++
	}
	a.table[k%maxNames] = asked{
		at: uintptr(unsafe.Pointer(unsafe.StringData(resource))), size: uint32(len(resource)), index: uint32(a.n),
	}
	a.names[a.n] = resource
	a.n++
	return a.n - 1
}

// rowAsks are amounts of the rows of a block.
type rowAsks struct {
	asks
	values [maxAsked][blockRows]int64
}

// value is what the i-th row of the block has. It calls nothing, see asks.
//
//go:noinline
func (a *rowAsks) value(resource string, i uint32) int64 {
	if k := a.index(resource); k >= 0 {
		return a.values[k%maxAsked][i%blockRows]
	}
	return notAsked
}

// podAsks are amounts of a pod.
type podAsks struct {
	asks
	values [maxAsked]int64
}

//go:noinline
func (a *podAsks) value(resource string) int64 {
	if a == nil {
		return notAsked
	}
	if k := a.index(resource); k >= 0 {
		return a.values[k%maxAsked]
	}
	return notAsked
}

// begin goes to a block of rows, and fetches what was asked for of others.
func (n *Node) begin(slots []int32) {
	n.block = slots
	for k := range n.allocatable.n {
		n.fetch(&n.allocatable, k, &n.rows.Allocatable, n.rows.AllocatableScalars)
	}
	for k := range n.requested.n {
		n.fetch(&n.requested, k, &n.rows.Requested, n.rows.RequestedScalars)
	}
}

// at goes to the i-th row of the block.
func (n *Node) at(i int) { n.slot, n.i = n.block[i], uint32(i) }

// fetch fills in what the rows of the block have of the k-th resource.
func (n *Node) fetch(a *rowAsks, k int, c *Columns, scalars [][]Scalar) {
	values := a.values[k][:len(n.block)]
	if scalars == nil {
		clear(values)
		return
	}
	of := n.rows.Symbols.name(a.names[k])
	if of.kind != scalarAmount {
		column := c.column(of.kind)
		for i, slot := range n.block {
			values[i] = column[slot]
		}
		return
	}
	for i, slot := range n.block {
		values[i] = ScalarValue(scalars[slot], of.sym)
	}
}

// learn is what the row has of a resource that is asked for the first time.
//
//go:noinline
func (n *Node) learn(a *rowAsks, resource string, c *Columns, scalars [][]Scalar) int64 {
	if len(n.block) > 0 {
		if k := a.add(resource); k >= 0 {
			n.fetch(a, k, c, scalars)
		}
	}
	if scalars == nil {
		return 0
	}
	amounts := c.At(n.slot)
	return n.rows.Symbols.name(resource).of(&amounts, scalars[n.slot])
}

// learn is what the pod asks of a resource for which nobody asked yet.
//
//go:noinline
func (p *Pod) learn(resource string) int64 {
	if p.syms == nil { // made by hand, and may yet change
		return (&name{text: resource, kind: amountOf(resource)}).of(&p.Requests, p.Scalars)
	}
	v := p.syms.name(resource).of(&p.Requests, p.Scalars)
	if p.asks == nil {
		p.asks = new(podAsks)
	}
	if k := p.asks.add(resource); k >= 0 {
		p.asks.values[k] = v
	}
	return v
}

// refetch fills in what another pod asks of the same resources.
func (p *Pod) refetch() {
	if p.asks == nil {
		return
	}
	for k := range p.asks.n {
		p.asks.values[k] = p.syms.name(p.asks.names[k]).of(&p.Requests, p.Scalars)
	}
}
