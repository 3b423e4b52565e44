package vet

// counter is the index of the fuel counter: the first that the guest lacks.
func (b *body) counter() uint32 { return uint32(b.m.globals) }

// withCharges returns the instructions with each point's charge in its place.
func (b *body) withCharges() []byte {
	out := make([]byte, 0, len(b.out)+24*len(b.points))
	from := 0
	for _, p := range b.points {
		if p.price == 0 {
			continue
		}
		out = append(out, b.out[from:p.at]...)
		from = p.at
		out = b.charge(out, func(out []byte) []byte {
			return appendS64(append(out, opI64Const), int64(p.price))
		})
		b.m.report.Charges++
		b.m.report.Largest = max(b.m.report.Largest, p.price)
	}
	return append(out, b.out[from:]...)
}

// charge takes what price leaves on the stack off the counter and traps when
// that makes it negative:
//
//	counter = (left = counter - price); if left < 0 { unreachable }
func (b *body) charge(out []byte, price func([]byte) []byte) []byte {
	const noResult = 0x40
	left := b.locals
	out = appendU32(append(out, opGlobalGet), b.counter())
	out = append(price(out), opI64Sub)
	out = appendU32(append(out, opLocalTee), left)
	out = appendU32(append(out, opGlobalSet), b.counter())
	out = appendU32(append(out, opLocalGet), left)
	return append(out, opI64Const, 0, opI64LtS, opIf, noResult, opUnreachable, opEnd)
}

// chargeSize charges for the unsigned i32 on top of the stack and leaves it
// there; scale turns it, widened to i64, into a price.
func (b *body) chargeSize(scale func([]byte) []byte) {
	b.scratch = true
	size := b.locals + 1
	b.out = appendU32(append(b.out, opLocalTee), size)
	b.out = b.charge(b.out, func(out []byte) []byte {
		out = appendU32(append(out, opLocalGet), size)
		return scale(append(out, opI64ExtendU))
	})
}

// chargeGrow puts the price of the pages asked for before a memory.grow that
// was just copied.
func (b *body) chargeGrow() {
	const length = 2
	b.now.price += priceGrow
	b.out = b.out[:len(b.out)-length]
	b.chargeSize(func(out []byte) []byte {
		return append(appendS64(append(out, opI64Const), priceGrowPage), opI64Mul)
	})
	b.out = append(b.out, opMemoryGrow, 0)
}
