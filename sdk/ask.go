package sdk

import "unsafe"

const (
	// blockRows is how many rows are looked up together for a simple face.
	blockRows = 64
	// maxAsked is how many resources are; a policy that asks for more pays for them.
	maxAsked = 8
	// askHomes is how many places there are for the names of resources.
	askHomes = 64
)

// lies says where a text lies, and its length. It is a number: TinyGo notes each
// pointer that a function loads, which takes longer than all else that is done
// here. Who keeps one keeps the text too, so that no other gets its place.
func lies(text string) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.StringData(text)))) | uint64(len(text))<<48
}

// placed says whether a text may be told by its place: addresses have 48 bits.
func placed(text string) bool { return text != "" && len(text) < 1<<16 }

// asked is a resource that a policy asks for.
type asked struct {
	place uint64
	// first is where the values of a block of rows begin.
	first uint32
}

// askHome is the place of a text: compilers put constants side by side. Of two
// that have the same place, the second is found by a walk over all.
func askHome(text string) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.StringData(text)))) % askHomes
}

// rowAsks are amounts of the rows of a block.
type rowAsks struct {
	table  [askHomes]asked
	values [maxAsked * blockRows]int64
	names  [maxAsked]string
	n      int
}

// add gives a resource its place.
func (a *rowAsks) add(resource string) (k int) {
	k = a.n
	a.names[k] = resource
	a.n++
	if home := &a.table[askHome(resource)]; home.place == 0 {
		*home = asked{lies(resource), uint32(k * blockRows)}
	}
	return k
}

// find is the place of a resource, -1 if it has none.
func (a *rowAsks) find(resource string) int {
	for k := range a.names[:a.n] {
		if lies(a.names[k]) == lies(resource) {
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
	of := n.rows.Symbols.name(a.names[k])
	column := from.column(of)
	switch {
	case from.lists == nil || column == nil && from.scalars.all():
		clear(values)
	case column == nil:
		for i, slot := range n.block {
			values[i] = ScalarValue(from.lists[slot], of.sym)
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
	if k < 0 && a.n < maxAsked && placed(resource) && len(n.block) > 0 {
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
	return n.rows.Symbols.name(resource).of(&has, from.lists[n.slot])
}

// podAsked is a resource, as asked, and what the pod asks of it.
type podAsked struct {
	place uint64
	value int64
}

// podAsks are amounts of the pod of the cycle.
type podAsks struct {
	table  [askHomes]podAsked
	names  [maxAsked]string
	values [maxAsked]int64
	n      int
}

// set notes what the pod asks of the k-th resource.
func (a *podAsks) set(k int, value int64) {
	a.values[k] = value
	at := lies(a.names[k])
	if home := &a.table[askHome(a.names[k])]; home.place == 0 || home.place == at {
		*home = podAsked{at, value}
	}
}

// seek is what the pod asks of a resource that is not where it is looked for first.
//
//go:noinline
func (p *Pod) seek(resource string) int64 {
	if p.syms == nil { // made by hand, and may yet change
		return (&name{text: resource, kind: amountOf(resource)}).of(&p.Requests, p.Scalars)
	}
	a := &p.asks
	for k := range a.names[:a.n] {
		if lies(a.names[k]) == lies(resource) {
			return a.values[k]
		}
	}
	v := p.syms.name(resource).of(&p.Requests, p.Scalars)
	if a.n < maxAsked && placed(resource) {
		a.names[a.n] = resource
		a.set(a.n, v)
		a.n++
	}
	return v
}

// refetch fills in what another pod asks of the same resources.
func (p *Pod) refetch() {
	for k := range p.asks.n {
		p.asks.set(k, p.syms.name(p.asks.names[k]).of(&p.Requests, p.Scalars))
	}
}
