package vet

// body rewrites one function. It follows the paths through the function as it
// copies it, and keeps for each place where fuel is charged (a point) the price
// of the dearest path from there to the next. Points stand at the entry, at
// each loop's header, and where branches meet after a long stretch.
//
//	entry ──► if ──► loop ◄─┐ ──► end ──► return      entry:  all outside of the loop
//	●                ●──────┘                         loop:   one turn of it
//
// What stands after a loop is paid for before it, since it runs once however
// often the loop turns.
type body struct {
	m        *module
	r        *reader
	out      []byte
	points   []point
	frames   []frame
	outer    []flow // by depth of loops: the flow that was left on entering
	now      flow
	locals   uint32 // the function's own, parameters included
	scratch  bool   // a bulk operation needs an i32 beside the i64
	calls    calls
	blocks   int
	branches int
	deepest  int
}

// point is a place in out where fuel is charged.
type point struct{ at, price int }

// flow is one path: the point that pays for it, and what it cost since.
type flow struct {
	payer int
	price int
	live  bool
}

// frame is an open block.
type frame struct {
	op     byte
	loops  int  // how many loops stand around its label
	entry  flow // if: where an else continues
	join   flow // of the branches to its end
	mixed  bool // they have different payers
	target bool // there are some
}

// joinPrice is the length from which a meeting of branches gets a point of its
// own, so that a short path does not pay for what a long one would have run.
const joinPrice = 64

const adviceSplit = "split the function"

func (b *body) refuse(r *Refusal) {
	if b.r.err == nil {
		b.r.err = at(r, b.r.base+b.r.pos)
	}
}

// run copies the instructions up to the function's end.
func (b *body) run() {
	b.outer = append(b.outer, flow{})
	b.newPoint()
	b.frames = append(b.frames, frame{op: opBlock})
	for b.r.err == nil && len(b.frames) > 0 {
		if b.r.left() == 0 {
			b.r.fail("a function has no end")
			return
		}
		b.instruction()
	}
	if b.r.err == nil && b.r.left() > 0 {
		b.r.fail("a function goes on after its end")
	}
}

func (b *body) newPoint() {
	b.settle(b.now)
	b.count(1)
	b.points = append(b.points, point{at: len(b.out), price: b.m.chargePrice})
	b.now = flow{payer: len(b.points) - 1, price: b.m.chargePrice, live: true}
}

// settle lets the payer of a path pay at least for this one.
func (b *body) settle(f flow) {
	if f.live {
		p := &b.points[f.payer]
		p.price = max(p.price, f.price)
	}
}

func (b *body) die() {
	b.settle(b.now)
	b.now.live = false
}

func (f *frame) meet(x flow) {
	switch {
	case !x.live:
	case !f.join.live:
		f.join = x
	case f.join.payer != x.payer:
		f.mixed = true
	default:
		f.join.price = max(f.join.price, x.price)
	}
}

// branch follows a jump to the label at that depth.
func (b *body) branch(depth uint32) {
	if int64(depth) >= int64(len(b.frames)) {
		b.r.fail("a branch leaves its function")
		return
	}
	b.settle(b.now)
	f := &b.frames[len(b.frames)-1-int(depth)]
	if f.op == opLoop || !b.now.live {
		return
	}
	f.target = true
	if inner := len(b.outer) - 1; f.loops < inner {
		f.meet(b.outer[f.loops+1])
		return
	}
	f.meet(b.now)
}

// count counts a place where the flow parts or meets; the compiler's time grows
// faster than their number.
func (b *body) count(n int) {
	if b.blocks += n; b.blocks > b.m.limits.Blocks {
		b.refuse(tooMany("blocks, branches and bulk operations", uint64(b.blocks), b.m.limits.Blocks, adviceSplit))
	}
}

func (b *body) open(op byte) {
	b.count(1)
	if len(b.frames) > b.m.limits.Nesting {
		b.refuse(tooMany("nested blocks", uint64(len(b.frames)), b.m.limits.Nesting, adviceSplit))
		return
	}
	f := frame{op: op, entry: b.now}
	if op == opLoop {
		b.settle(b.now)
		b.outer = append(b.outer, b.now)
		b.newPoint()
	}
	f.loops = len(b.outer) - 1
	b.frames = append(b.frames, f)
	b.deepest = max(b.deepest, len(b.frames)-1)
}

func (b *body) otherwise() {
	f := &b.frames[len(b.frames)-1]
	if f.op != opIf {
		b.r.fail("an else stands outside of an if")
		return
	}
	b.settle(b.now)
	f.meet(b.now)
	b.now = f.entry
	f.op = opElse
}

func (b *body) close() {
	f := b.frames[len(b.frames)-1]
	b.frames = b.frames[:len(b.frames)-1]
	b.settle(b.now)
	if f.op == opLoop {
		top := len(b.outer) - 1
		through := b.now.live
		b.now = b.outer[top]
		b.now.live = b.now.live && through
		b.outer = b.outer[:top]
		return
	}
	f.meet(b.now)
	if f.op == opIf {
		f.meet(f.entry)
	}
	b.now = f.join
	if len(b.frames) > 0 && b.now.live && (f.mixed || f.target && b.now.price > joinPrice) {
		b.newPoint()
	}
}

func (b *body) instruction() {
	if b.m.exact {
		b.newPoint()
	}
	op := b.r.byte()
	o := opcodes[op]
	b.now.price += int(o.price)
	b.out = append(b.out, op)
	switch o.form {
	case formNone:
		b.plain(op)
	case formBlock:
		b.blockType()
		b.open(op)
	case formLabel:
		b.count(1)
		depth := b.r.u32()
		b.out = appendU32(b.out, depth)
		b.branch(depth)
		if op == opBr {
			b.die()
		}
	case formLabels:
		b.branchTable()
	case formFunc:
		b.function(op)
	default:
		b.operand(op, o.form)
	}
}

func (b *body) function(op byte) {
	if op == opRefFunc {
		b.out = appendU32(b.out, b.m.take(b.r))
		return
	}
	f := b.m.funcIndex(b.r)
	b.out = appendU32(b.out, f)
	b.calls.direct = append(b.calls.direct, f)
	if int(f) < b.m.imports {
		b.now.price += priceImport
	}
}

func (b *body) plain(op byte) {
	switch op {
	case opEnd:
		b.close()
	case opElse:
		b.otherwise()
	case opReturn:
		// The same, and right too when the function becomes a block.
		b.out = appendU32(append(b.out[:len(b.out)-1], opBr), uint32(len(b.frames)-1))
		b.die()
	case opUnreachable:
		b.die()
	}
}

func (b *body) blockType() {
	t := b.r.signed(33)
	switch {
	case b.r.err != nil:
	case t >= 0:
		if t >= int64(len(b.m.types)) {
			b.r.fail("a block names a type that the module does not have")
		}
		b.out = appendS64(b.out, t)
	case t < -64:
		b.r.fail("a block has no type")
	default:
		c := byte(t & 0x7f)
		if c != typeNone && !b.m.accepts(c) {
			b.feature("a block of type 0x%02x", c)
		}
		b.out = append(b.out, c)
	}
}

func (b *body) branchTable() {
	n := b.r.count("targets of a br_table", b.m.limits.BranchTable, adviceSplit)
	if b.branches += n + 1; b.branches > b.m.limits.BranchTables {
		b.refuse(tooMany("targets of all br_tables", uint64(b.branches), b.m.limits.BranchTables, adviceSplit))
		return
	}
	b.m.report.BranchTable = max(b.m.report.BranchTable, n)
	b.out = appendU32(b.out, uint32(n))
	for range n + 1 {
		depth := b.r.u32()
		b.out = appendU32(b.out, depth)
		b.branch(depth)
		if b.r.err != nil {
			return
		}
	}
	b.die()
}

func (b *body) operand(op byte, f form) {
	switch f {
	case formIndirect:
		b.calls.indirect = true
		b.out = appendU32(b.out, b.m.typeIndex(b.r))
		b.out = appendU32(b.out, b.m.tableIndex(b.r))
	case formLocal:
		b.index("local", b.locals)
	case formGlobal:
		b.index("global", uint32(b.m.globals))
	case formTable:
		b.out = appendU32(b.out, b.m.tableIndex(b.r))
	case formMemarg:
		b.memarg()
	case formMemory:
		b.memory()
		if op == opMemoryGrow && b.r.err == nil {
			b.chargeGrow()
		}
	case formI32:
		b.out = appendS64(b.out, b.r.signed(32))
	case formI64:
		b.out = appendS64(b.out, b.r.signed(64))
	case formF32:
		b.out = append(b.out, b.r.bytes(4)...)
	case formF64:
		b.out = append(b.out, b.r.bytes(8)...)
	case formSelect:
		if n := b.r.u32(); b.r.err == nil && n != 1 {
			b.r.fail("a select has not one type")
		}
		b.out = append(b.out, 1, b.m.valueType(b.r))
	case formNull:
		if t := b.r.byte(); b.r.err == nil && t != typeFuncref {
			b.feature("a null reference of type 0x%02x", t)
		}
		b.out = append(b.out, typeFuncref)
	case formMore:
		b.more()
	case formSIMD:
		b.simd()
	default:
		b.feature("instruction 0x%02x", op)
	}
}

func (b *body) feature(format string, code any) {
	b.refuse(refuse(RuleFeature, "turn the feature off in the compiler", "it uses "+format+", which this host does not accept", code))
}

func (b *body) index(what string, have uint32) {
	i := b.r.u32()
	if b.r.err == nil && i >= have {
		b.refuse(refuse(RuleReserved, adviceRebuild, "it names %s %d of %d", what, i, have))
	}
	b.out = appendU32(b.out, i)
}

func (b *body) memarg() {
	align, offset := b.r.u32(), b.r.u32()
	if b.r.err == nil && align > 4 {
		b.r.fail("a load or store has no such alignment")
	}
	b.out = appendU32(appendU32(b.out, align), offset)
}

func (b *body) memory() {
	if i := b.r.byte(); b.r.err == nil && i != 0 {
		b.feature("memory %d", i)
	}
	b.out = append(b.out, 0)
}
