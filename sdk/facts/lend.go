package facts

// loan is the symbols of the pod of the cycle: those from first on. They go when
// the next pod comes, the last first, so that the table is what it was before. If
// a row has one of them meanwhile, or brings others, all of them stay. Their bytes
// are never written over, since the author may keep a string.
type loan struct {
	first  Symbol // NoSymbol while there is none
	open   bool   // the pod is being read
	chunks int    // that there were before
	bytes  int
	chunk  []byte // where the next ones lie
}

// lentSize is what chunks for lent strings take, and leastLent how much room the
// strings of a pod are to find in one.
const (
	lentSize  = 64 << 10
	leastLent = 8 << 10
)

// Lend has what is interned until Lent go with the next call.
func (s *Symbols) Lend() {
	s.takeBack()
	l := &s.lent
	if cap(l.chunk)-len(l.chunk) < leastLent {
		l.chunk = make([]byte, 0, lentSize)
	}
	l.first, l.open, l.chunks, l.bytes = Symbol(len(s.places)), true, len(s.chunks), s.bytes
	s.chunks = append(s.chunks, l.chunk)
}

// Lent ends what Lend began: others than the pod intern from here on.
func (s *Symbols) Lent() { s.lent.open = false }

// keep lets what was lent stay.
func (s *Symbols) keep() { s.lent = loan{} }

// takeBack forgets what was lent.
func (s *Symbols) takeBack() {
	l := s.lent
	if l.first == NoSymbol {
		return
	}
	for sym := len(s.places) - 1; sym >= int(l.first); sym-- {
		s.free(Symbol(sym))
	}
	s.lent = loan{chunk: s.chunks[len(s.chunks)-1]}
	clear(s.chunks[l.chunks:])
	s.places, s.chunks, s.bytes = s.places[:l.first], s.chunks[:l.chunks], l.bytes
	if s.names.lent {
		s.forgetNames()
	}
}

// free gives the slot of the symbol that came last back.
func (s *Symbols) free(sym Symbol) {
	mask := uint32(len(s.slots) - 1)
	at := s.places[sym].hash & mask
	for s.slots[at] != sym {
		at = (at + 1) & mask
	}
	s.slots[at] = NoSymbol
}
