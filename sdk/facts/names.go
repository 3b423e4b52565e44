package facts

import "unsafe"

// maxNames is how many texts of the author's are known by where they lie; a power of two.
const maxNames = 64

// Name is a text that a policy asks by: a label's key, a resource. It is known
// again by where its bytes lie, since a policy asks every row by the same few
// constants and settings, and neither hashes nor compares them then.
type Name struct {
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
	table [maxNames]Name
	n     int
	// unknown says that some have no symbol yet.
	unknown bool
	// lent says that some have a symbol that is lent.
	lent bool
}

func home(text string) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.StringData(text)))) * 0x9e3779b1 >> 26
}

// known is the entry of a text, nil if it has none.
func (s *Symbols) known(text string) *Name {
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

// ByAddress is the entry of a text, known by where it lies, a new one if need be.
func (s *Symbols) ByAddress(text string) *Name {
	if n := s.known(text); n != nil {
		return n
	}
	return s.learn(text)
}

//go:noinline
func (s *Symbols) learn(text string) *Name {
	if s.names.n > maxNames*3/4 {
		s.forgetNames()
	}
	at := home(text)
	for s.names.table[at%maxNames].text != "" {
		at++
	}
	_, sym := s.find(text, hashString(text))
	s.names.n++
	s.names.lent = s.names.lent || s.lent.first != NoSymbol && sym >= s.lent.first
	s.names.unknown = s.names.unknown || sym == NoSymbol
	n := &s.names.table[at%maxNames]
	*n = Name{text, sym, amountOf(text)}
	return n
}

func (s *Symbols) forgetNames() {
	clear(s.names.table[:])
	s.names.n, s.names.unknown, s.names.lent = 0, false, false
}

// Symbol of the text, NoSymbol if it has none.
func (n *Name) Symbol() Symbol { return n.sym }

// Column is which of the four columns of amounts holds the resource, of MilliCPU,
// Memory, EphemeralStorage and Pods in this order; the others are scalars.
func (n *Name) Column() (i int, ok bool) {
	return int(n.kind-firstAmount) & 3, n.kind != scalarAmount
}

// Of is what a list of amounts and scalars has of the resource.
func (n *Name) Of(a *Amounts, scalars []Scalar) int64 {
	if n.kind != scalarAmount {
		return (*[4]int64)(unsafe.Pointer(a))[(n.kind-firstAmount)&3]
	}
	return ScalarValue(scalars, n.sym)
}
