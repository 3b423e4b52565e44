package vet

// form is what follows an opcode.
type form uint8

const (
	formBad      form = iota
	formNone          // nothing
	formBlock         // a block type
	formLabel         // a label
	formLabels        // labels and a default
	formFunc          // a function
	formIndirect      // a type and a table
	formLocal         // a local
	formGlobal        // a global
	formTable         // a table
	formMemarg        // alignment and offset
	formMemory        // the memory, always 0
	formI32           // a constant
	formI64
	formF32
	formF64
	formSelect // types
	formNull   // a reference type
	formMore   // 0xfc: saturating conversions and bulk operations
	formSIMD   // 0xfd
)

// Opcodes that vet looks at.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opRefFunc      = 0xd2
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opMemoryGrow   = 0x40
	opI64Const     = 0x42
	opI64LtS       = 0x53
	opI64GeS       = 0x59
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Mul       = 0x7e
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad

	moreMemoryInit = 8
	moreDataDrop   = 9
	moreMemoryCopy = 10
	moreMemoryFill = 11
	moreTableInit  = 12
	moreElemDrop   = 13
	moreTableCopy  = 14
	moreTableGrow  = 15
	moreTableSize  = 16
	moreTableFill  = 17
)

// Prices, in units of fuel: about what one simple instruction takes. An
// instruction costs what it takes at its worst where that is far from the
// usual, or else a module of nothing but those would outrun its budget.
const (
	priceSimple   = 1
	priceLoad     = 4
	priceStore    = 4
	priceFloat    = 2
	priceSlow     = 4 // several machine instructions, or one of long latency
	priceMultiply = 2
	priceDivide   = 16
	priceCall     = 6
	priceIndirect = 12
	priceImport   = 100 // of the crossing; the host function adds its own
	priceTable    = 4   // br_table
	priceSIMD     = 4
	priceBulk     = 30 // before the size
	priceTableSet = 100
	priceCharge   = 3 // of a charge itself

	// Growing costs the host the pages that it puts there.
	priceGrow     = 3000
	priceGrowPage = 24000
	// A byte moved or set costs 1/4, an entry of a table 4.
	bulkByteShift  = 2
	bulkEntryPrice = 4
)

type opcode struct {
	form  form
	price uint8
}

var opcodes = buildOpcodes()

func buildOpcodes() (t [256]opcode) {
	set := func(from, to int, f form, price uint8) {
		for i := from; i <= to; i++ {
			t[i] = opcode{f, price}
		}
	}
	set(0x00, 0x01, formNone, priceSimple)
	set(0x02, 0x03, formBlock, 0)
	set(0x04, 0x04, formBlock, priceSimple)
	set(0x05, 0x05, formNone, 0)
	set(0x0b, 0x0b, formNone, 0)
	set(0x0c, 0x0d, formLabel, priceSimple)
	set(0x0e, 0x0e, formLabels, priceTable)
	set(0x0f, 0x0f, formNone, priceSimple)
	set(0x10, 0x10, formFunc, priceCall)
	set(0x11, 0x11, formIndirect, priceIndirect)
	set(0x1a, 0x1a, formNone, 0)
	set(0x1b, 0x1b, formNone, priceSimple)
	set(0x1c, 0x1c, formSelect, priceSimple)
	set(0x20, 0x22, formLocal, priceSimple)
	set(0x23, 0x24, formGlobal, priceFloat)
	set(0x25, 0x25, formTable, priceLoad)
	set(0x26, 0x26, formTable, priceTableSet)
	set(0x28, 0x35, formMemarg, priceLoad)
	set(0x36, 0x3e, formMemarg, priceStore)
	set(0x3f, 0x3f, formMemory, priceLoad)
	set(0x40, 0x40, formMemory, priceBulk)
	set(0x41, 0x41, formI32, priceSimple)
	set(0x42, 0x42, formI64, priceSimple)
	set(0x43, 0x43, formF32, priceSimple)
	set(0x44, 0x44, formF64, priceSimple)
	set(0x45, 0xc4, formNone, priceSimple)
	set(0x8b, 0xa6, formNone, priceFloat)
	for _, op := range []int{0x6c, 0x7e} {
		t[op].price = priceMultiply
	}
	for _, op := range []int{0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, 0x91, 0x95, 0x9f, 0xa3} {
		t[op].price = priceDivide // integer and float division, remainder, square root
	}
	for _, op := range []int{0x8d, 0x8e, 0x8f, 0x90, 0x96, 0x97, 0x9b, 0x9c, 0x9d, 0x9e, 0xa4, 0xa5} {
		t[op].price = priceSlow // rounding, min, max
	}
	set(0xa8, 0xab, formNone, priceSlow)
	set(0xae, 0xb1, formNone, priceSlow)
	set(0xd0, 0xd0, formNull, priceSimple)
	set(0xd1, 0xd1, formNone, priceSimple)
	set(0xd2, 0xd2, formFunc, priceLoad)
	set(0xfc, 0xfc, formMore, priceSlow)
	set(0xfd, 0xfd, formSIMD, priceSIMD)
	return t
}
