package sdk

import (
	"math"
	"unsafe"
)

// maxNames is how many texts of the author's are known by where they lie; a power of two.
const maxNames = 64

// name is a text that a policy asks by: a label's key, a resource. It is known
// again by where its bytes lie, since a policy asks every row by the same few
// constants and settings, and neither hashes nor compares them then.
type name struct {
	text string
	sym  Symbol
	kind amountKind
}

// amountKind says where an amount is: in a list of scalars, or in which column.
type amountKind uint32

const (
	scalarAmount amountKind = iota
	firstAmount             // MilliCPU, Memory, EphemeralStorage, Pods, in this order
)

func amountOf(resource string) amountKind {
	switch resource {
	case "cpu":
		return firstAmount
	case "memory":
		return firstAmount + 1
	case "ephemeral-storage":
		return firstAmount + 2
	case "pods":
		return firstAmount + 3
	}
	return scalarAmount
}

// names is open addressing by the address of a text's bytes. That a text is held
// here keeps another one from being put in its place.
type names struct {
	table [maxNames]name
	n     int
	// unknown says that some have no symbol yet.
	unknown bool
}

func home(text string) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.StringData(text)))) * 0x9e3779b1 >> 26
}

// known is the entry of a text, nil if it has none.
func (s *Symbols) known(text string) *name {
	for at := home(text); ; at++ {
		n := &s.names.table[at%maxNames]
		if unsafe.StringData(n.text) == unsafe.StringData(text) && len(n.text) == len(text) {
			return n
		}
		if n.text == "" {
			return nil
		}
	}
}

// name is the entry of a text, a new one if need be.
func (s *Symbols) name(text string) *name {
	if n := s.known(text); n != nil {
		return n
	}
	return s.learn(text)
}

//go:noinline
func (s *Symbols) learn(text string) *name {
	if s.names.n > maxNames*3/4 {
		s.forgetNames()
	}
	at := home(text)
	for s.names.table[at%maxNames].text != "" {
		at++
	}
	_, sym := s.find(text, hashString(text))
	s.names.n++
	s.names.unknown = s.names.unknown || sym == NoSymbol
	n := &s.names.table[at%maxNames]
	*n = name{text, sym, amountOf(text)}
	return n
}

func (s *Symbols) forgetNames() {
	clear(s.names.table[:])
	s.names.n, s.names.unknown = 0, false
}

// at is one of the amounts. They lie side by side, as the kinds do.
func (a *Amounts) at(kind amountKind) int64 {
	return (*[4]int64)(unsafe.Pointer(a))[(kind-firstAmount)&3]
}

// column is one of the columns, which lie side by side too.
func (c *Columns) column(kind amountKind) []int64 {
	return (*[4][]int64)(unsafe.Pointer(c))[(kind-firstAmount)&3]
}

// notKnown is what the functions below answer of a resource that is asked for
// the first time. They call nothing, since TinyGo has each function that calls
// another note its pointers for the collector, which takes longer than all else
// that they do.
const notKnown = math.MinInt64

// amount is what a row has of a resource: allocatable, or requested.
//
//go:noinline
func amount(n *Node, resource string, requested bool) int64 {
	r := n.rows
	c, scalars := &r.Allocatable, r.AllocatableScalars
	if requested {
		c, scalars = &r.Requested, r.RequestedScalars
	}
	if scalars == nil {
		return 0
	}
	var e *name
	for at := home(resource); ; at++ {
		e = &r.Symbols.names.table[at%maxNames]
		if unsafe.StringData(e.text) == unsafe.StringData(resource) && len(e.text) == len(resource) {
			break
		}
		if e.text == "" {
			return notKnown
		}
	}
	if e.kind != scalarAmount {
		return c.column(e.kind)[n.slot]
	}
	for _, s := range scalars[n.slot] {
		if s.Name == e.sym {
			return s.Value
		}
	}
	return 0
}

//go:noinline
func request(p *Pod, resource string) int64 {
	n := p.syms.known(resource)
	if n == nil {
		return notKnown
	}
	if n.kind != scalarAmount {
		return p.Requests.at(n.kind)
	}
	return ScalarValue(p.Scalars, n.sym)
}
