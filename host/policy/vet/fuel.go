package vet

// counter is the index of the global that holds the fuel between functions: the
// first that the guest lacks.
func (m *module) counter() uint32 { return uint32(m.globals) }

// stackLeft is the index of the global that says how much stack is left.
func (m *module) stackLeft() uint32 { return uint32(m.globals) + 1 }

// A function keeps its fuel in a local, where charging costs one subtraction,
// and in the counter while others run: those that it calls, and the host.

// load takes the fuel out of the counter.
func (b *body) load(out []byte) []byte {
	out = appendU32(append(out, opGlobalGet), b.m.counter())
	return appendU32(append(out, opLocalSet), b.locals)
}

// flush puts the fuel back.
func (b *body) flush(out []byte) []byte {
	out = appendU32(append(out, opLocalGet), b.locals)
	return appendU32(append(out, opGlobalSet), b.m.counter())
}

// charge takes what price leaves on the stack off the fuel.
func (b *body) charge(out []byte, price func([]byte) []byte) []byte {
	out = appendU32(append(out, opLocalGet), b.locals)
	out = append(price(out), opI64Sub)
	out = appendU32(append(out, opLocalSet), b.locals)
	if b.m.exact || b.m.eager {
		out = b.flush(out)
	}
	return out
}

func constant(v int64) func([]byte) []byte {
	return func(out []byte) []byte { return appendS64(append(out, opI64Const), v) }
}

// bulkBlocks is how many blocks a bulk operation counts for: the compiler makes
// loops of it.
const bulkBlocks = 8

// chargeSize charges for the unsigned i32 on top of the stack and leaves it
// there; scale turns it, widened to i64, into a price. It is paid before the
// operation runs.
func (b *body) chargeSize(scale func([]byte) []byte) {
	b.scratch = true
	b.calling()
	b.count(bulkBlocks)
	size := b.locals + 1
	b.out = appendU32(append(b.out, opLocalTee), size)
	b.out = b.charge(b.out, func(out []byte) []byte {
		out = appendU32(append(out, opLocalGet), size)
		return scale(append(out, opI64ExtendU))
	})
	b.noteCheck()
	b.out = b.check(b.out)
}

// chargeGrow puts the price of the pages asked for before a memory.grow that
// was just copied.
func (b *body) chargeGrow() {
	const length = 2
	b.out = b.out[:len(b.out)-length]
	b.chargeSize(func(out []byte) []byte {
		out = append(constant(priceGrowPage)(out), opI64Mul)
		return append(constant(priceGrow)(out), opI64Add)
	})
	b.out = append(b.out, opMemoryGrow, 0)
}

// chargeStack takes a frame off what is left of the stack and traps when that
// makes it negative.
func (m *module) chargeStack(out []byte, frame int64, scratch uint32) []byte {
	out = appendU32(append(out, opGlobalGet), m.stackLeft())
	out = append(constant(frame)(out), opI64Sub)
	out = appendU32(append(out, opLocalTee), scratch)
	out = appendU32(append(out, opGlobalSet), m.stackLeft())
	out = appendU32(append(out, opLocalGet), scratch)
	return append(out, opI64Const, 0, opI64LtS, opIf, typeNone, opUnreachable, opEnd)
}

// wrap puts a function's code into a block, so that fuel and stack are given
// back however it returns: vet writes every return as a branch to that block.
//
//	stack -= frame; if stack < 0 { unreachable }; left = counter
//	block { code }
//	ask where no fuel is left; counter = left; stack += frame
//
// It asks if the code may charge after a call, lest functions that return to one
// another run on and on. before is how much stands before the code.
func (m *module) wrap(f *function, t funcType, pays bool) (out []byte, before int) {
	out = make([]byte, 0, len(f.code)+60)
	if pays {
		out = m.chargeStack(out, f.frame, f.locals)
	}
	fuel := &body{m: m, locals: f.locals}
	out = m.appendResults(append(fuel.load(out), opBlock), t)
	before = len(out)
	out = append(out, f.code...)
	if f.late {
		out = fuel.check(out)
	}
	out = fuel.flush(out)
	if pays {
		out = appendU32(append(out, opGlobalGet), m.stackLeft())
		out = append(constant(f.frame)(out), opI64Add)
		out = appendU32(append(out, opGlobalSet), m.stackLeft())
	}
	return append(out, opEnd), before
}

// appendResults writes the type of a block that gives what a function gives.
func (m *module) appendResults(out []byte, t funcType) []byte {
	switch len(t.results) {
	case 0:
		return append(out, typeNone)
	case 1:
		return append(out, t.results[0])
	}
	return appendS64(out, int64(m.typeOf(funcType{results: t.results})))
}

// typeOf finds a type, or adds it.
func (m *module) typeOf(t funcType) int {
	for i, have := range m.types {
		if string(have.params) == string(t.params) && string(have.results) == string(t.results) {
			return i
		}
	}
	m.types = append(m.types, t)
	return len(m.types) - 1
}
