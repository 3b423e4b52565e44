package vet

import "math/bits"

// event is a step of a function as far as its variables go: what happens, and to
// which of them, or else the depth of a label or what kind of block ends.
type event struct {
	does does
	n    uint32
}

type does uint8

const (
	gets      does = iota
	sets           // a variable
	invokes        // which sets the memory and all globals
	opens          // a block
	otherwise      // an else
	ends           // a block
	goes           // to a label
	mayGo          // to a label
	stops
)

// Kinds of blocks that end.
const (
	aBlock uint32 = iota
	aLoop
	anIf
)

// set is a set of variables.
type set []uint64

func (s set) has(n uint32) bool { return s[n/64]>>(n%64)&1 != 0 }
func (s set) add(n uint32)      { s[n/64] |= 1 << (n % 64) }
func (s set) drop(n uint32)     { s[n/64] &^= 1 << (n % 64) }

func (s set) join(t set) {
	for i, w := range t {
		s[i] |= w
	}
}

// both counts what is in both sets.
func (s set) both(t set) int {
	n := 0
	for i, w := range t {
		n += bits.OnesCount64(s[i] & w)
	}
	return n
}

// liveness walks a function from its end to its beginning and follows which of
// its variables are still used, and what makes new values of them. It takes two
// walks: the first finds what is used beyond the head of each loop, as if it was
// turned once; what those around it use, the second adds.
type liveness struct {
	words  int
	called set // the variables that calls set
	now    set
	open   []region
	heads  []set // by loop, from the last
	loops  int
	second bool
	values int
}

// region is a block whose end was passed, and its beginning not yet.
type region struct {
	kind  uint32
	loop  int
	after set // used beyond its end
	other set // used in its else
	sets  set // set within
	comes bool
	two   bool // it has an else
}

// count is how many values the events make that are used, of so many variables.
// Calls set those from one on.
func (l *liveness) count(flow []event, from, variables uint32) int {
	l.words = int(variables+63) / 64
	l.called = l.empty(l.called)
	for v := from; v < variables; v++ {
		l.called.add(v)
	}
	for _, second := range []bool{false, true} {
		l.second, l.loops, l.values = second, 0, 0
		l.now, l.open = l.empty(l.now), l.open[:0]
		for i := len(flow) - 1; i >= 0; i-- {
			l.step(flow[i])
		}
	}
	return l.values
}

// empty is an empty set in the place of one that is no longer wanted.
func (l *liveness) empty(s set) set {
	if cap(s) < l.words {
		return make(set, l.words)
	}
	s = s[:l.words]
	clear(s)
	return s
}

func (l *liveness) step(e event) {
	switch e.does {
	case gets:
		l.now.add(e.n)
	case sets:
		l.set(e.n)
	case invokes:
		l.call()
	case ends:
		l.end(e.n)
	case otherwise:
		f := l.top()
		f.two = true
		copy(f.other, l.now)
		copy(l.now, f.after)
	case opens:
		l.begin()
	case goes:
		clear(l.now)
		l.branch(e.n)
	case mayGo:
		l.branch(e.n)
	case stops:
		clear(l.now)
	}
}

func (l *liveness) top() *region { return &l.open[len(l.open)-1] }

func (l *liveness) set(v uint32) {
	if len(l.open) > 0 {
		l.top().sets.add(v)
	}
	if l.now.has(v) {
		l.values++
		l.now.drop(v)
	}
}

// call sets what calls set.
func (l *liveness) call() {
	if len(l.open) > 0 {
		l.top().sets.join(l.called)
	}
	l.values += l.now.both(l.called)
	for i, w := range l.called {
		l.now[i] &^= w
	}
}

func (l *liveness) end(kind uint32) {
	var f *region
	l.open, f = next(l.open)
	*f = region{kind: kind, after: append(f.after[:0], l.now...), other: l.empty(f.other), sets: l.empty(f.sets)}
	if kind != aLoop {
		return
	}
	f.loop = l.loops
	if l.loops++; !l.second {
		l.heads, _ = next(l.heads[:f.loop])
		l.heads[f.loop] = l.empty(l.heads[f.loop])
		return
	}
	for i := len(l.open) - 2; i >= 0; i-- { // the nearest one has those around it
		if around := &l.open[i]; around.kind == aLoop {
			l.heads[f.loop].join(l.heads[around.loop])
			break
		}
	}
}

func (l *liveness) branch(depth uint32) {
	at := len(l.open) - 1 - int(depth)
	if at < 0 {
		return // out of the function
	}
	f := &l.open[at]
	f.comes = true
	if f.kind != aLoop {
		l.now.join(f.after)
		return
	}
	l.now.join(l.heads[f.loop])
}

func (l *liveness) begin() {
	f := l.top()
	l.open = l.open[:len(l.open)-1]
	switch {
	case f.kind == aLoop:
		l.head(f)
	case f.kind == anIf && f.two:
		l.now.join(f.other)
		l.meet(f.sets, f.after)
	case f.kind == anIf:
		l.now.join(f.after)
		l.meet(f.sets, f.after)
	case f.comes:
		l.meet(f.sets, f.after)
	}
	if len(l.open) > 0 {
		l.top().sets.join(f.sets)
	}
}

// head is where a loop begins. In the first walk what is used beyond it is found
// out; then it also has what is used beyond the heads of those around it, which
// may be more than is used there.
func (l *liveness) head(f *region) {
	const heads = 2 // with the one around it that vet may put there
	if !l.second {
		copy(l.heads[f.loop], l.now)
		return
	}
	l.now.join(l.heads[f.loop])
	for range heads {
		l.meet(f.sets, l.now)
	}
}

// meet counts what has one value by one way, and another by another: the fuel
// does always.
func (l *liveness) meet(sets, used set) {
	l.values += 1 + sets.both(used)
}
