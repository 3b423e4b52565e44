package vet

import "slices"

// node is a stretch of code that runs in one go. Nodes stand in the order of the
// code, and edges lead forward only: what leads back is a loop, and a loop is
// paid for by itself.
//
//	entry ──► if ──► loop ◄─┐ ──► end ──► return      entry:  all outside of the loop
//	●                ●──────┘                         loop:   one turn of it
type node struct {
	at      int   // where it begins
	price   int   // of its instructions
	next    []int // the nodes that may follow within the same turn of a loop
	ends    bool  // it may also be the last one
	charged bool  // it is charged on entering, or else by those before it
	checks  check // what is done there if no fuel is left
	need    int   // the price of the dearest path from here to the next charge
}

// check says what is done at a charge when the fuel ran out before it.
type check uint8

const (
	runsOn check = iota // nothing: the next check is near
	asks                // the host is asked for more
	leaves              // the loop is left, which asks and comes back
)

// unfair is by how much a path may be overcharged at one fork: beyond, the
// dearer side is charged for by itself.
const unfair = 48

// place decides where fuel is charged. A node that is not charged is paid for by
// each node that leads to it, so whatever path a call takes, each instruction
// is paid for before it runs.
func (b *body) place() {
	for i := len(b.nodes) - 1; i >= 0; i-- {
		b.split(&b.nodes[i])
	}
	for i := len(b.nodes) - 1; i >= 0; i-- {
		n := &b.nodes[i]
		n.need = n.price + b.dearest(n)
	}
}

// split has those followers of a node charged by themselves that cost far more
// than another way on.
func (b *body) split(n *node) {
	least := 0
	if !n.ends && len(n.next) > 0 {
		least = b.cheapest(n)
	}
	for _, s := range n.next {
		if next := &b.nodes[s]; next.need-least > unfair {
			next.charged = true
		}
	}
	n.need = n.price + b.dearest(n)
}

func (b *body) cheapest(n *node) int {
	least := b.nodes[n.next[0]].due()
	for _, s := range n.next[1:] {
		least = min(least, b.nodes[s].due())
	}
	return least
}

func (b *body) dearest(n *node) int {
	most := 0
	for _, s := range n.next {
		most = max(most, b.nodes[s].due())
	}
	return most
}

// due is what a node leaves to those before it.
func (n *node) due() int {
	if n.charged {
		return 0
	}
	return n.need
}

// path is the price of the dearest way through.
func (b *body) path() int {
	most := make([]int, len(b.nodes))
	for i := len(b.nodes) - 1; i >= 0; i-- {
		for _, s := range b.nodes[i].next {
			most[i] = max(most[i], most[s])
		}
		most[i] += b.nodes[i].price
	}
	return most[0]
}

// chargesLate says whether something is charged without a look, after the entry.
func (b *body) chargesLate() bool {
	return slices.ContainsFunc(b.nodes[1:], func(n node) bool { return n.charged && n.checks == runsOn })
}

// withCharges returns the instructions with the charges in their places.
func (b *body) withCharges() []byte {
	out := make([]byte, 0, len(b.out)+8*len(b.nodes))
	from := 0
	for i := range b.nodes {
		n := &b.nodes[i]
		price := n.need + b.m.chargePrice
		if !n.charged || price == 0 && n.checks == runsOn {
			continue
		}
		b.shift(n.at, len(out)-from)
		out = append(out, b.out[from:n.at]...)
		from = n.at
		switch n.checks {
		case asks:
			out = b.check(out)
		case leaves:
			out = b.leave(out)
		}
		out = b.charge(out, constant(int64(price)))
		b.m.report.Charges++
		b.m.report.Largest = max(b.m.report.Largest, price)
	}
	b.shift(len(b.out), len(out)-from)
	return append(out, b.out[from:]...)
}
