package wasmtest

import "math/rand/v2"

// Random returns a valid policy made at random, which ends: it counts its own
// loops and calls, and traps beyond some thousands. Its function "run" takes an
// i32 and an i64 and gives an i64; what it did is in its memory and in the
// exported globals "g0", "g1" and "g2".
func Random(seed uint64) []byte {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), m: Policy()}
	for n := range 3 {
		g.m.ExportRaw(string([]byte{'g', byte('0' + n)}), 3, g.m.Global(int64(n)))
	}
	g.gas = g.m.Global(3000)
	g.m.Passive([]byte("some passive data"))
	g.makeSmall()
	g.first = uint32(len(g.m.names))
	g.count = 2 + g.IntN(5)
	for range g.count {
		g.kinds = append(g.kinds, kinds[g.IntN(len(kinds))])
	}
	g.m.Sizes = []uint32{uint32(g.count) + 1} // the last entry is null
	for n := range g.count {
		g.m.Elem = append(g.m.Elem, g.first+uint32(n))
		code := g.body(g.kinds[n])
		if g.IntN(5) == 0 {
			code = g.smallBody(g.kinds[n])
		}
		g.m.Func("f", g.kinds[n], g.locals(), code)
	}
	run := Sig([]byte{I32, I64}, I64)
	g.m.Export("run", run, g.locals(), g.body(run))
	return g.m.Bytes()
}

var kinds = []Type{
	Sig(nil),
	Sig([]byte{I32, I64}, I64),
	Sig([]byte{I64}, I32),
	Sig([]byte{I32}, I64, I32), // more than one result
}

// Locals of each random function, after its parameters: two of each type.
var randomLocals = []byte{I32, I32, I64, I64, F64, F64}

type generator struct {
	*rand.Rand
	m      *Module
	gas    uint32 // the global that counts down
	first  uint32
	count  int
	small  []uint32 // functions that no table holds
	kinds  []Type
	params int
	labels [][]byte // what a branch to each open label takes
	depth  int
	alone  bool // nothing may be called here
	left   int  // statements that may still be made in this function
}

func (g *generator) locals() []byte { return randomLocals }

// local is a local of that type.
func (g *generator) local(t byte) uint32 {
	at := map[byte]int{I32: 0, I64: 2, F64: 4}[t]
	return uint32(g.params + at + g.IntN(2))
}

func (g *generator) burn() []byte {
	return Seq(GlobalGet(g.gas), I64Const(1), Op(0x7d), GlobalSet(g.gas),
		GlobalGet(g.gas), I64Const(0), Op(0x53), If(Void, Op(0)))
}

func (g *generator) body(t Type) []byte {
	g.params, g.left, g.depth = len(t.params), 60, 0
	g.labels = [][]byte{t.results}
	code := Seq(g.burn(), g.statements())
	return Seq(code, g.values(t.results))
}

// makeSmall makes a function of each kind that calls nothing and does little.
func (g *generator) makeSmall() {
	for _, k := range kinds {
		g.small = append(g.small, g.m.Func("small", k, g.locals(), g.smallBody(k)))
	}
}

func (g *generator) smallBody(t Type) []byte {
	g.params, g.labels = len(t.params), [][]byte{t.results}
	code := Seq(g.value(I64, 1), Set(g.local(I64)))
	switch g.IntN(4) {
	case 0:
		code = Seq(code, g.jump())
	case 1:
		code = Seq(code, g.value(I32, 1), If(Void, g.values(t.results), Op(0x0f)))
	case 2:
		code = Seq(code, Block(Void, Block(Void, g.value(I32, 1), Op(0x0e, 2, 0, 1, 0)), g.value(I64, 1), Set(g.local(I64))))
	}
	return Seq(code, g.values(t.results))
}

// shaped is a block, a loop or an if that takes and gives more than one value.
func (g *generator) shaped() []byte {
	one, two := []byte{I64}, []byte{I64, I32}
	into := func(op byte, t Type) []byte { return append([]byte{op}, S64(int64(g.m.Type(t)))...) }
	keep := Seq(Set(g.local(I32)), Set(g.local(I64)))
	switch g.IntN(6) {
	case 0: // a loop that takes a value, on which its code stands
		return Seq(g.value(I64, 1), into(0x03, Sig(one, I64)), g.burn(), g.inside(one), g.value(I64, 1), Op(0x7c, 0x0b), Set(g.local(I64)))
	case 1: // a loop that takes two values, and is turned with others
		return Seq(g.values(two), into(0x03, Sig(two, I64, I32)), keep, g.burn(), g.inside(two), g.values(two), Op(0x0b), keep)
	case 2:
		return Seq(into(0x03, Sig(nil, I64, I32)), g.burn(), g.inside(nil), g.values(two), Op(0x0b), keep)
	case 3:
		return Seq(into(0x02, Sig(nil, I64, I32)), g.inside(two), g.values(two), Op(0x0b), keep)
	case 4:
		return Seq(g.value(I64, 1), g.value(I32, 1), into(0x04, Sig(one, I64)), g.inside(one), Op(0x05), g.inside(one), Op(0x0b), Set(g.local(I64)))
	default:
		return Seq(Loop(I64, g.burn(), g.inside(nil), g.value(I64, 2)), Set(g.local(I64)))
	}
}

// lonely are loops within a loop, none of which calls.
func (g *generator) lonely() []byte {
	defer func(was bool) { g.alone = was }(g.alone)
	g.alone = true
	return Loop(Void, g.burn(), g.within(nil, func() []byte {
		return Seq(g.statements(), Loop(Void, g.burn(), g.inside(nil), g.within(nil, g.jump)), g.jump())
	}))
}

func (g *generator) values(types []byte) []byte {
	var code []byte
	for _, t := range types {
		code = append(code, g.value(t, 2)...)
	}
	return code
}

func (g *generator) statements() []byte {
	var code []byte
	for range 1 + g.IntN(6) {
		if g.left--; g.left < 0 {
			break
		}
		code = append(code, g.statement()...)
	}
	return code
}

// inside makes statements within a label whose branches carry those results.
func (g *generator) inside(results []byte) []byte {
	return g.within(results, g.statements)
}

func (g *generator) within(results []byte, code func() []byte) []byte {
	g.labels = append(g.labels, results)
	g.depth++
	defer func() {
		g.depth--
		g.labels = g.labels[:len(g.labels)-1]
	}()
	return code()
}

func (g *generator) statement() []byte {
	n := g.IntN(30)
	if g.depth > 6 && (n < 6 || n > 25) {
		n = 6 + n%6
	}
	if g.alone && n >= 10 && n <= 12 {
		n = 18
	}
	switch {
	case n <= 5:
		return g.block(n)
	case n <= 12:
		return g.leave(n)
	case n <= 23:
		return g.assign(n)
	}
	return g.winding(n)
}

// block is a statement that holds others.
func (g *generator) block(n int) []byte {
	switch n {
	case 0:
		return Block(Void, g.inside([]byte{}))
	case 1:
		return Loop(Void, g.burn(), g.inside(nil))
	case 2:
		return Seq(g.value(I32, 2), If(Void, g.inside([]byte{})))
	case 3:
		return Seq(g.value(I32, 2), Op(0x04, Void), g.inside([]byte{}), Op(0x05), g.inside([]byte{}), Op(0x0b))
	case 4:
		return Seq(Block(I64, g.inside([]byte{I64}), g.value(I64, 2)), Set(g.local(I64)))
	}
	return Seq(g.value(I32, 1), Op(0x04, I32), g.inside([]byte{I32}), g.value(I32, 1), Op(0x05), g.inside([]byte{I32}), g.value(I32, 1), Op(0x0b), Set(g.local(I32)))
}

// leave is a statement that goes elsewhere, or has much done.
func (g *generator) leave(n int) []byte {
	switch n {
	case 6, 7:
		return g.jump()
	case 8:
		return g.branchTable()
	case 9:
		return Seq(g.values(g.labels[0]), Op(0x0f))
	case 10, 11:
		return g.call()
	}
	return g.bulk()
}

// assign is a statement that puts a value somewhere.
func (g *generator) assign(n int) []byte {
	switch n {
	case 13:
		return Seq(g.address(), g.value(I64, 2), Store64(uint32(g.IntN(64))))
	case 14:
		return Seq(g.address(), g.value(I32, 2), Store32(uint32(g.IntN(64))))
	case 15:
		return Seq(g.value(I64, 2), GlobalSet(uint32(g.IntN(3))))
	case 16:
		return Seq(g.value(F64, 2), Set(g.local(F64)))
	case 17, 18, 19:
		return Seq(g.value(I32, 3), Set(g.local(I32)))
	}
	return Seq(g.value(I64, 3), Set(g.local(I64)))
}

// winding is a statement whose ways a compiler or a meter may get wrong.
func (g *generator) winding(n int) []byte {
	switch n {
	case 24:
		// A loop that is left by a branch only.
		return Block(Void, g.within([]byte{}, func() []byte {
			return Loop(Void, g.burn(), g.inside(nil), g.value(I32, 1), BrIf(1), Br(0))
		}))
	case 25:
		// A long way round.
		return Seq(g.value(I32, 1), If(Void, g.within([]byte{}, func() []byte {
			return Seq(g.value(I32, 1), BrIf(0), Times(30, g.value(I64, 1), Set(g.local(I64))))
		})))
	case 26, 27:
		return g.shaped()
	case 28:
		return g.lonely()
	}
	// A value that lies beneath.
	return Seq(g.value(I64, 1), g.statement(), Set(g.local(I64)))
}

// target is an open label and what a branch to it takes.
func (g *generator) target() (uint32, []byte) {
	i := g.IntN(len(g.labels))
	return uint32(len(g.labels) - 1 - i), g.labels[i]
}

// jump branches, most often on a condition, so that what follows is alive.
func (g *generator) jump() []byte {
	depth, results := g.target()
	code := g.values(results)
	if g.IntN(4) == 0 {
		return Seq(code, Br(depth))
	}
	code = Seq(code, g.value(I32, 1), BrIf(depth))
	for range results {
		code = append(code, 0x1a)
	}
	return code
}

// branchTable goes to labels that take the same.
func (g *generator) branchTable() []byte {
	var depths []byte
	_, takes := g.target()
	for i, results := range g.labels {
		if string(results) == string(takes) && g.IntN(3) > 0 {
			depths = append(depths, byte(len(g.labels)-1-i))
		}
	}
	if len(depths) == 0 {
		return nil
	}
	table := Seq(g.values(takes), g.value(I32, 1), Op(0x0e), U32(uint32(len(depths))), depths, depths[:1])
	return Seq(g.value(I32, 1), If(Void, shift(table, len(depths)+1)))
}

// shift makes labels at the end of code one deeper, for the block around it.
func shift(code []byte, labels int) []byte {
	out := append([]byte(nil), code...)
	for i := len(out) - labels; i < len(out); i++ {
		out[i]++
	}
	return out
}

// call calls a function by name or through the table, which may trap.
func (g *generator) call() []byte {
	i := g.IntN(g.count)
	t := g.kinds[i]
	which := g.IntN(4)
	if which == 0 {
		i = g.IntN(len(kinds))
		t = kinds[i]
	}
	code := g.values(t.params)
	if which == 0 {
		code = Seq(code, Call(g.small[i]))
	} else if which == 1 {
		code = Seq(code, g.value(I32, 1), I32Const(int32(g.count)), Op(0x70), Op(0x11), U32(g.m.Type(t)), Op(0))
	} else {
		code = Seq(code, Call(g.first+uint32(i)))
	}
	for _, r := range reversed(t.results) {
		code = Seq(code, Set(g.local(r)))
	}
	return code
}

func reversed(b []byte) []byte {
	var out []byte
	for _, c := range b {
		out = append([]byte{c}, out...)
	}
	return out
}

func (g *generator) bulk() []byte {
	small := Seq(g.value(I32, 1), I32Const(255), Op(0x71))
	switch g.IntN(4) {
	case 0:
		return Seq(g.address(), g.value(I32, 1), small, Op(0xfc, 11, 0))
	case 1:
		return Seq(g.address(), g.address(), small, Op(0xfc, 10, 0, 0))
	case 2:
		return Seq(g.address(), I32Const(int32(g.IntN(4))), I32Const(int32(g.IntN(20))), Op(0xfc, 8, 1, 0))
	default:
		return Seq(I32Const(int32(g.IntN(2))), Op(0x40, 0), Set(g.local(I32)))
	}
}

// address is one within the first page, most often.
func (g *generator) address() []byte {
	return Seq(g.value(I32, 1), I32Const(0x7fff), Op(0x71))
}

var (
	i32Binary = []byte{0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4e}
	i64Binary = []byte{0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a}
	f64Binary = []byte{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6}
)

func pick(g *generator, ops []byte) []byte { return Op(ops[g.IntN(len(ops))]) }

func (g *generator) value(t byte, depth int) []byte {
	if depth == 0 || g.IntN(4) == 0 {
		return g.leaf(t)
	}
	depth--
	switch t {
	case I32:
		switch g.IntN(6) {
		case 0:
			return Seq(g.address(), Load32(uint32(g.IntN(64))))
		case 1:
			return Seq(g.value(I64, depth), Op(0xa7))
		case 2:
			return Seq(g.value(I64, depth), g.value(I64, depth), Op(0x53))
		case 3:
			return Seq(g.value(F64, depth), Op(0xfc, 2))
		default:
			return Seq(g.value(I32, depth), g.value(I32, depth), pick(g, i32Binary))
		}
	case I64:
		switch g.IntN(6) {
		case 0:
			return Seq(g.address(), Load64(uint32(g.IntN(64))))
		case 1:
			return Seq(g.value(I32, depth), Op(0xac))
		case 2:
			return Seq(g.value(F64, depth), Op(0xfc, 6))
		case 3:
			return Seq(g.value(I64, depth), g.value(I64, depth), g.value(I32, depth), Op(0x1b))
		default:
			return Seq(g.value(I64, depth), g.value(I64, depth), pick(g, i64Binary))
		}
	default:
		if g.IntN(3) == 0 {
			return Seq(g.value(I64, depth), Op(0xb9))
		}
		return Seq(g.value(F64, depth), g.value(F64, depth), pick(g, f64Binary))
	}
}

func (g *generator) leaf(t byte) []byte {
	switch {
	case t == F64 && g.IntN(2) == 0:
		return F64Const(g.NormFloat64() * 1000)
	case t == I32 && g.IntN(3) == 0:
		return I32Const(int32(g.Uint32()) >> g.IntN(32))
	case t == I64 && g.IntN(3) == 0:
		return I64Const(int64(g.Uint64()) >> g.IntN(64))
	case t == I64 && g.IntN(3) == 0:
		return GlobalGet(uint32(g.IntN(3)))
	default:
		return Get(g.local(t))
	}
}
