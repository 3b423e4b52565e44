package facts

import "unsafe"

// Symbol is a string in the instance's table: equal strings have equal
// symbols, so a comparison is one of integers. NoSymbol stands for absence,
// EmptySymbol for the empty string. A Filterer or Scorer that follows nothing
// must not keep a symbol for the next pod: what it has of this one is forgotten.
// Strings arrive interned, so a known pod decodes without allocating.
type Symbol uint32

const (
	NoSymbol Symbol = iota
	EmptySymbol
)

// chunkSize is small: from each string a collector looks for the beginning of its
// chunk.
const chunkSize = 1 << 10

// place is where a symbol's bytes lie.
type place struct {
	chunk, off, size, hash uint32
}

// Symbols is a table of strings. It only grows, but for the strings of the pod of
// the cycle where they are lent. It holds no pointers but those to its chunks, so
// that a collector has nothing to walk.
type Symbols struct {
	chunks [][]byte
	places []place
	slots  []Symbol // open addressing; 0 is free
	bytes  int
	names  names
	lent   loan
}

// NewSymbols is an empty table.
func NewSymbols() *Symbols {
	s := &Symbols{slots: make([]Symbol, 256)}
	s.places = append(s.places, place{}, place{})
	s.chunks = append(s.chunks, make([]byte, 0, chunkSize))
	return s
}

// Len is how many symbols there are.
func (s *Symbols) Len() int { return len(s.places) }

// String is the symbol's text; NoSymbol has none.
func (s *Symbols) String(sym Symbol) string {
	p := s.places[sym]
	if p.size == 0 {
		return ""
	}
	return unsafe.String(&s.chunks[p.chunk][p.off], int(p.size))
}

// Intern returns the symbol for text, a new one if need be.
func (s *Symbols) Intern(text string) Symbol {
	if len(text) == 0 {
		return EmptySymbol
	}
	h := hashString(text)
	at, sym := s.find(text, h)
	if s.lent.first != NoSymbol && !s.lent.open && (sym == NoSymbol || sym >= s.lent.first) {
		s.keep()
	}
	if sym != NoSymbol {
		return sym
	}
	return s.add(text, h, at)
}

// Lookup returns the symbol for text, NoSymbol if it has none.
func (s *Symbols) Lookup(text string) Symbol {
	if len(text) == 0 {
		return EmptySymbol
	}
	return s.ByAddress(text).sym
}

// InternBytes returns the symbol for a text.
func (s *Symbols) InternBytes(b []byte) Symbol {
	if len(b) == 0 {
		return EmptySymbol
	}
	return s.Intern(unsafe.String(&b[0], len(b)))
}

// Text is a text as a string that lasts as long as its symbol.
func (s *Symbols) Text(b []byte) string { return s.String(s.InternBytes(b)) }

// Size is how many bytes the texts and their places take.
func (s *Symbols) Size() int { return s.bytes }

func (s *Symbols) find(text string, h uint32) (at uint32, sym Symbol) {
	mask := uint32(len(s.slots) - 1)
	for at = h & mask; ; at = (at + 1) & mask {
		sym = s.slots[at]
		if sym == NoSymbol {
			return at, NoSymbol
		}
		p := &s.places[sym]
		if p.hash == h && int(p.size) == len(text) && s.String(sym) == text {
			return at, sym
		}
	}
}

func (s *Symbols) add(text string, h, at uint32) Symbol {
	if s.names.unknown {
		s.forgetNames()
	}
	sym := Symbol(len(s.places))
	chunk, off := s.store(text)
	s.places = append(s.places, place{chunk: chunk, off: off, size: uint32(len(text)), hash: h})
	s.slots[at] = sym
	if len(s.places)*2 > len(s.slots) {
		s.grow()
	}
	return sym
}

// store copies text into the last chunk, or into a new one; a chunk is never
// moved, since strings point into it.
func (s *Symbols) store(text string) (chunk, off uint32) {
	s.bytes += len(text) + int(unsafe.Sizeof(place{}))
	last := len(s.chunks) - 1
	if cap(s.chunks[last])-len(s.chunks[last]) < len(text) {
		s.chunks = append(s.chunks, make([]byte, 0, max(chunkSize, len(text))))
		last++
	}
	off = uint32(len(s.chunks[last]))
	s.chunks[last] = append(s.chunks[last], text...)
	return uint32(last), off
}

func (s *Symbols) grow() {
	slots := make([]Symbol, 2*len(s.slots))
	mask := uint32(len(slots) - 1)
	for sym := 2; sym < len(s.places); sym++ {
		at := s.places[sym].hash & mask
		for slots[at] != NoSymbol {
			at = (at + 1) & mask
		}
		slots[at] = Symbol(sym)
	}
	s.slots = slots
}

// hashString is FNV-1a with a last mix, since the low bits pick the slot.
func hashString(text string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(text); i++ {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h ^ h>>15
}
