package vet

// counter is the index of the fuel counter: the first that the guest lacks.
func (m *module) counter() uint32 { return uint32(m.globals) }

// stackLeft is the index of the global that says how much stack is left.
func (m *module) stackLeft() uint32 { return uint32(m.globals) + 1 }

// charge takes what price leaves on the stack off a counter and traps when that
// makes it negative:
//
//	counter = (left = counter - price); if left < 0 { unreachable }
func charge(out []byte, counter, left uint32, price func([]byte) []byte) []byte {
	out = appendU32(append(out, opGlobalGet), counter)
	out = append(price(out), opI64Sub)
	out = appendU32(append(out, opLocalTee), left)
	out = appendU32(append(out, opGlobalSet), counter)
	out = appendU32(append(out, opLocalGet), left)
	return append(out, opI64Const, 0, opI64LtS, opIf, typeNone, opUnreachable, opEnd)
}

func constant(v int64) func([]byte) []byte {
	return func(out []byte) []byte { return appendS64(append(out, opI64Const), v) }
}

// bulkBlocks is how many blocks a bulk operation counts for: the compiler makes
// loops of it.
const bulkBlocks = 8

// chargeSize charges for the unsigned i32 on top of the stack and leaves it
// there; scale turns it, widened to i64, into a price.
func (b *body) chargeSize(scale func([]byte) []byte) {
	b.scratch = true
	b.count(bulkBlocks)
	size := b.locals + 1
	b.out = appendU32(append(b.out, opLocalTee), size)
	b.out = charge(b.out, b.m.counter(), b.locals, func(out []byte) []byte {
		out = appendU32(append(out, opLocalGet), size)
		return scale(append(out, opI64ExtendU))
	})
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

// stackBytes is how much stack recursion may take by vet's reckoning, which is
// on the cautious side for all but odd code.
const stackBytes = 1 << 20

// frameBytes reckons what a call takes: what vet cannot see, the values that
// wait on the operand stack, grows with the code.
func frameBytes(f *function, t funcType) int64 {
	return 64 + 8*(int64(f.locals)+int64(len(t.results))) + int64(len(f.code))/4
}

// withDepth puts a function's code into a block, so that it can give its stack
// back however it returns: vet writes every return as a branch to that block.
//
//	stack -= frame; if stack < 0 { unreachable }; block { code }; stack += frame
//
// before is how much stands before the code.
func (m *module) withDepth(f *function, t funcType) (out []byte, before int) {
	frame := frameBytes(f, t)
	out = charge(make([]byte, 0, len(f.code)+40), m.stackLeft(), f.locals, constant(frame))
	out = m.appendResults(append(out, opBlock), t)
	before = len(out)
	out = append(out, f.code...)
	out = appendU32(append(out, opGlobalGet), m.stackLeft())
	out = append(constant(frame)(out), opI64Add)
	out = appendU32(append(out, opGlobalSet), m.stackLeft())
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
	for i, have := range m.types {
		if len(have.params) == 0 && string(have.results) == string(t.results) {
			return appendS64(out, int64(i))
		}
	}
	m.types = append(m.types, funcType{results: t.results})
	return appendS64(out, int64(len(m.types)-1))
}
