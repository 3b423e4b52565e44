package vet

// more copies an instruction of the 0xfc family.
func (b *body) more() {
	sub := b.r.u32()
	if b.r.err != nil {
		return
	}
	start := len(b.out) - 1
	switch {
	case sub < moreMemoryInit:
		b.out = appendU32(b.out, sub)
	case sub == moreTableGrow:
		b.refuse(refuse(RuleTable, "let the linker size the table", "it grows a table"))
	case sub > moreTableFill:
		b.feature("instruction 0xfc %d", sub)
	default:
		b.bulk(sub, start)
	}
}

// bulk copies an operation whose time grows with its last operand, and charges
// for that before it.
func (b *body) bulk(sub uint32, start int) {
	b.pay(priceBulk)
	operands := b.bulkOperands(sub)
	if b.r.err != nil {
		return
	}
	b.out = b.out[:start]
	switch sub {
	case moreMemoryInit, moreMemoryCopy, moreMemoryFill:
		b.chargeSize(func(out []byte) []byte {
			return append(appendS64(append(out, opI64Const), bulkByteShift), opI64ShrU)
		})
	case moreTableInit, moreTableCopy, moreTableFill:
		b.chargeSize(func(out []byte) []byte {
			return append(appendS64(append(out, opI64Const), bulkEntryPrice), opI64Mul)
		})
	}
	b.out = append(appendU32(append(b.out, 0xfc), sub), operands...)
}

func (b *body) bulkOperands(sub uint32) []byte {
	mark := len(b.out)
	switch sub {
	case moreMemoryInit:
		b.segment(b.m.data)
		b.memory()
	case moreDataDrop:
		b.segment(b.m.data)
	case moreMemoryCopy:
		b.memory()
		b.memory()
	case moreMemoryFill:
		b.memory()
	case moreTableInit:
		b.segment(b.m.report.Elements)
		b.out = appendU32(b.out, b.m.tableIndex(b.r))
	case moreElemDrop:
		b.segment(b.m.report.Elements)
	case moreTableCopy:
		b.out = appendU32(b.out, b.m.tableIndex(b.r))
		b.out = appendU32(b.out, b.m.tableIndex(b.r))
	default:
		b.out = appendU32(b.out, b.m.tableIndex(b.r))
	}
	operands := append([]byte(nil), b.out[mark:]...)
	b.out = b.out[:mark]
	return operands
}

func (b *body) segment(have int) {
	i := b.r.u32()
	if b.r.err == nil && int64(i) >= int64(have) {
		b.r.fail("it names a segment that the module does not have")
	}
	b.out = appendU32(b.out, i)
}

// simd copies an instruction of the 0xfd family.
func (b *body) simd() {
	sub := b.r.u32()
	if b.r.err != nil {
		return
	}
	if b.m.limits.NoSIMD || sub > 255 {
		b.feature("vector instruction %d", sub)
		return
	}
	b.out = appendU32(b.out, sub)
	b.m.wide = true
	switch sub {
	case 0xe3, 0xe7, 0xef, 0xf3: // square roots and divisions
		b.pay(2 * priceDivide)
	}
	switch {
	case sub <= 11 || sub == 92 || sub == 93:
		b.memarg()
	case sub == 12 || sub == 13:
		b.out = append(b.out, b.r.bytes(16)...)
	case sub >= 21 && sub <= 34:
		b.out = append(b.out, b.r.byte())
	case sub >= 84 && sub <= 91:
		b.memarg()
		b.out = append(b.out, b.r.byte())
	}
}
