package vet

const (
	// stackBytes is how much stack a guest may take by vet's reckoning: several
	// times what its calls really take, but never less.
	stackBytes = 6 << 20
	// largeFrame is from where on a function pays for its place even if it
	// cannot call itself.
	largeFrame = 16 << 10
)

// A function's frame holds the values that registers do not, each in a place of
// its own, though they do not live at the same time. Which those are, the
// compiler decides; vet counts those that may be:
//   - what stays on the operand stack while something else is put onto it;
//   - what a local is set to, and the addresses in it, which are used again;
//   - what a call leaves of the module's globals and memory, if it is asked for;
//   - where ways meet, each local that is set on one of them and used later.
//     There a module can make thousands of values out of a few bytes, by blocks
//     within blocks.
type frameUse struct {
	values   int  // but those that liveness tells
	waiting  bool // the last instruction left one, which the next may take
	globals  uint32
	operands int // of the call that has most
	flow     []event
}

func (b *body) note(d does, n uint32) {
	if b.plan != nil {
		b.kept.flow = append(b.kept.flow, event{d, n})
	}
}

// noteCheck notes that the host may be called, or not.
func (b *body) noteCheck() {
	const fuel = 2 // after the call, and where the ways meet
	b.kept.values += fuel
	b.note(opens, 0)
	b.note(invokes, 0)
	b.note(ends, anIf)
}

// Variables are numbered: locals, where the memory is and how large, globals.
func (b *body) memoryVariable() uint32         { return b.locals }
func (b *body) globalVariable(g uint32) uint32 { return b.locals + 2 + g }

// frameBytes reckons what a call takes at most.
func (b *body) frameBytes(t funcType) int64 {
	const least, saved = 112, 16
	k := &b.kept
	values := len(t.params) + len(t.results) + k.values
	values += b.m.live.count(k.flow, b.memoryVariable(), b.globalVariable(k.globals))
	slot := 8
	if b.m.wide {
		slot = 16
	}
	return least + int64(slot)*int64(values+k.operands) + 8*int64(min(values, saved))
}

// passes follows an instruction as far as values go: one on top that it does not
// take has to wait.
func (b *body) passes(op byte) {
	k := &b.kept
	if k.waiting && leavesTop(op) {
		k.values++
	}
	if op >= 0x28 && op <= 0x3e { // loads and stores
		b.note(gets, b.memoryVariable())
		b.note(gets, b.memoryVariable()+1)
		if op > 0x35 || !k.waiting {
			k.values++
		}
	}
	k.waiting = gives(op) || k.waiting && op == opLocalTee // which leaves it there
}

// leavesTop says whether an instruction takes nothing off the operand stack, or
// may not.
func leavesTop(op byte) bool {
	switch op {
	case opBrIf, opBrTable, opIf, opCallIndirect, 0x1a, 0x1b, 0x1c, opLocalSet, opLocalTee, opGlobalSet, opMemoryGrow:
		return false
	}
	return op <= opCall || op >= opLocalGet && op <= 0x24 || op >= 0x3f && op <= 0x44 || op >= 0xd0
}

// gives says whether an instruction puts a value onto the stack that was not
// there before, and is no constant, which is made where it is used.
func gives(op byte) bool {
	return op >= 0x28 && op <= 0x35 || op >= 0x3f && (op < 0x41 || op > 0x44) || op == 0x1b || op == 0x1c || op == 0x25
}

// called notes a call of a function of that type.
func (b *body) called(t funcType) {
	k := &b.kept
	k.values++ // the fuel
	k.operands = max(k.operands, len(t.params)+len(t.results))
	if k.waiting = len(t.results) == 1; !k.waiting {
		k.values += len(t.results)
	}
	b.note(invokes, 0)
}

// variable notes that one is read or set.
func (b *body) variable(read bool, v uint32) {
	if read {
		b.note(gets, v)
		return
	}
	b.note(sets, v)
}

// endOf notes that a block ends; its own values are of one that differ by the
// way to it, too.
func (b *body) endOf(f *frame) {
	b.kept.waiting = false
	b.kept.values += f.results
	kind := aBlock
	switch {
	case len(b.frames) == 0:
		return // the function
	case f.op == opLoop:
		kind = aLoop
	case f.op == opIf || f.op == opElse:
		kind = anIf
	}
	b.note(ends, kind)
}
