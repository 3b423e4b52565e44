package vet

// body copies one function, and follows the paths through it on the way: it
// makes nodes of what runs in one go, and edges between them, for the charges
// to be placed by.
//
// It is large because each kind of instruction is copied, priced and followed
// by a method, over one state of the function.
type body struct {
	m        *module
	r        *reader
	out      []byte
	nodes    []node
	frames   []frame
	outer    []int // by depth of loops: the node that was left on entering
	now      int   // the node that runs here, or dead
	locals   uint32
	scratch  bool // a bulk operation needs an i32 beside the i64
	calls    calls
	blocks   int
	branches int
	deepest  int
	marks    []mark
	shifted  int // how many of them were moved

	turns  []turns // of the loops, in the order of the code
	inside []int   // the loops that are open, as places in turns
	plan   *plan   // nil in the first pass
	sum    int     // of all prices
	kept   frameUse
}

// body begins a function, in the memory of the one before it: a module has
// thousands of them.
func (m *module) body(r *reader, locals uint32, p *plan) *body {
	old := &m.last
	*old = body{m: m, r: r, locals: locals, plan: p, out: old.out[:0], nodes: old.nodes[:0], frames: old.frames[:0],
		outer: old.outer[:0], marks: old.marks[:0], inside: old.inside[:0], kept: frameUse{flow: old.kept.flow[:0]}}
	return old
}

// next lengthens a list by an element, which holds what stood there before.
func next[T any](list []T) ([]T, *T) {
	if n := len(list); n < cap(list) {
		list = list[:n+1]
	} else {
		list = append(list, *new(T))
	}
	return list, &list[len(list)-1]
}

// dead is the node of code that nothing reaches.
const dead = -1

// frame is an open block.
type frame struct {
	op      byte
	loops   int   // how many loops stand around its label
	entry   int   // if: the node before it
	sources []int // the nodes that go on at its end
	turns   int   // loop: its place among the loops
	added   int   // blocks that vet put around it and those around it
	results int   // what it takes and gives
}

const adviceSplit = "split the function"

func (b *body) refuse(r *Refusal) {
	if b.r.err == nil {
		b.r.err = at(r, b.r.base+b.r.pos)
	}
}

// run copies the instructions up to the function's end.
func (b *body) run() {
	b.outer = append(b.outer, dead)
	b.begin(true)
	b.mark()
	if b.plan != nil {
		b.noteCheck()
		b.nodes[b.now].checks = b.plan.entry
	}
	b.enter(frame{op: opBlock, entry: dead})
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

// begin starts a node here, which those others lead to.
func (b *body) begin(charged bool, from ...int) {
	var n *node
	b.nodes, n = next(b.nodes)
	*n = node{at: len(b.out), charged: charged, next: n.next[:0]}
	b.now = len(b.nodes) - 1
	for _, f := range from {
		b.nodes[f].next = append(b.nodes[f].next, b.now)
	}
}

// end is where a path leaves the function, or turns a loop once more.
func (b *body) end() {
	if b.now != dead {
		b.nodes[b.now].ends = true
		b.now = dead
	}
}

func (f *frame) from(n int) {
	if n != dead && (len(f.sources) == 0 || f.sources[len(f.sources)-1] != n) {
		f.sources = append(f.sources, n)
	}
}

// branch follows a jump to the label at that depth.
func (b *body) branch(depth uint32) {
	if int64(depth) >= int64(len(b.frames)) {
		b.r.fail("a branch leaves its function")
		return
	}
	if b.now == dead {
		return
	}
	f := &b.frames[len(b.frames)-1-int(depth)]
	source := b.now
	if inner := len(b.outer) - 1; f.loops < inner {
		// What follows the loop was paid for before it.
		b.nodes[b.now].ends = true
		if source = b.outer[f.loops+1]; source == dead {
			return
		}
	}
	if f.op == opLoop || int(depth) == len(b.frames)-1 {
		b.nodes[source].ends = true
		return
	}
	f.from(source)
}

// count counts places where the flow parts or meets; the compiler's time grows
// faster than their number.
func (b *body) count(n int) {
	if b.blocks += n; b.blocks > b.m.limits.Blocks {
		b.refuse(tooMany("blocks, branches and bulk operations", uint64(b.blocks), b.m.limits.Blocks, adviceSplit))
	}
}

func (b *body) open(op byte, start int) {
	b.count(1)
	f := frame{op: op, entry: b.now}
	if len(b.frames) > 0 {
		f.added = b.frames[len(b.frames)-1].added
	}
	if deep := len(b.frames) + f.added; deep > b.m.limits.Nesting {
		b.refuse(tooMany("nested blocks", uint64(deep), b.m.limits.Nesting, adviceSplit))
		return
	}
	switch {
	case op == opLoop:
		b.loop(&f, start)
	case op == opIf && b.now != dead:
		b.begin(false, b.now)
	}
	f.loops = len(b.outer) - 1
	b.enter(f)
	b.deepest = max(b.deepest, len(b.frames)-1)
}

// enter opens a block.
func (b *body) enter(f frame) {
	var into *frame
	b.frames, into = next(b.frames)
	f.sources = into.sources[:0]
	*into = f
}

func (b *body) otherwise() {
	f := &b.frames[len(b.frames)-1]
	if f.op != opIf {
		b.r.fail("an else stands outside of an if")
		return
	}
	b.note(otherwise, 0)
	f.from(b.now)
	f.op, b.now = opElse, dead
	if f.entry != dead {
		b.begin(false, f.entry)
	}
}

func (b *body) close() {
	f := &b.frames[len(b.frames)-1]
	b.frames = b.frames[:len(b.frames)-1]
	b.endOf(f)
	switch {
	case len(b.frames) == 0:
		b.end()
	case f.op == opLoop:
		before, through := b.outer[len(b.outer)-1], b.now != dead
		b.outer = b.outer[:len(b.outer)-1]
		b.endLoop(f)
		if b.end(); through && before != dead {
			b.begin(false, before)
		}
	default:
		b.join(f)
	}
}

// join goes on after a block, where its branches and its end meet.
func (b *body) join(f *frame) {
	alone := len(f.sources) == 0 && f.op != opIf
	if alone {
		return
	}
	if f.op == opIf {
		f.from(f.entry)
	}
	f.from(b.now)
	if b.now = dead; len(f.sources) > 0 {
		b.begin(false, f.sources...)
	}
}

// pay adds to what the node that runs here costs.
func (b *body) pay(price int) {
	if b.now != dead {
		b.nodes[b.now].price += price
		b.sum += price
	}
}

func (b *body) instruction() {
	if b.m.exact {
		b.begin(true)
	}
	if b.r.left() > 0 && mayTrap(b.r.b[b.r.pos]) {
		b.mark()
	}
	op := b.r.byte()
	o := opcodes[op]
	b.passes(op)
	b.pay(int(o.price))
	b.out = append(b.out, op)
	switch o.form {
	case formNone:
		b.plain(op)
	case formBlock:
		start := len(b.out) - 1
		b.blockType()
		b.open(op, start)
		b.carries(start + 1)
	case formLabel:
		b.count(1)
		depth := b.r.u32()
		b.label(depth)
		b.branch(depth)
		if op == opBr {
			b.note(goes, depth)
			b.now = dead
		} else {
			b.note(mayGo, depth)
			if b.now != dead {
				b.begin(false, b.now)
			}
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
		b.reference()
		return
	}
	f := b.m.funcIndex(b.r)
	b.calls.direct = append(b.calls.direct, f)
	b.called(b.m.types[b.m.functions[f]])
	if int(f) < b.m.imports {
		b.pay(priceImport)
	}
	call := appendU32([]byte{op}, b.m.moved(f))
	if b.plan == nil || int(f) < b.m.imports {
		b.call(call, false)
		return
	}
	s := &b.plan.all[int(f)-b.m.imports]
	if s.free {
		b.pay(s.path)
	}
	if b.call(call, s.free); s.short {
		b.look()
	}
}

// reference reads a reference from a global in which it is made once. wazero makes
// a new one at each ref.func, by a call of the host, and keeps them all as long as
// the instance lives.
func (b *body) reference() {
	f := b.m.take(b.r)
	n, ok := b.m.references[f]
	if !ok {
		n = uint32(len(b.m.references))
		if b.m.references[f] = n; int(n) >= b.m.limits.Globals {
			b.refuse(tooMany("functions to which code makes references", uint64(n)+1, b.m.limits.Globals, "take them from a table"))
		}
	}
	b.out = appendU32(append(b.out[:len(b.out)-1], opGlobalGet), b.m.stackLeft()+1+n)
}

// call writes a call, in whose place its opcode stands. One that is free leaves
// the counter as it was.
func (b *body) call(call []byte, free bool) {
	b.calling()
	b.out = b.flush(b.out[:len(b.out)-1])
	b.later()
	if b.out = append(b.out, call...); !free {
		b.out = b.load(b.out)
	}
}

// look checks the fuel after a call of a function that may not have, where there
// may be many of them.
func (b *body) look() {
	if b.plan != nil && b.plan.heavy {
		b.calling()
		b.noteCheck()
		b.out = b.check(b.out)
		b.count(2)
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
		b.out = append(b.out[:len(b.out)-1], opBr)
		b.label(uint32(len(b.frames) - 1))
		b.note(stops, 0)
		b.end()
	case opUnreachable:
		b.note(stops, 0)
		if b.plan != nil && !b.plan.free {
			b.out = b.flush(b.out[:len(b.out)-1])
			b.later()
			b.out = append(b.out, opUnreachable)
		}
		b.end()
	}
}

// carries notes how many values the block takes and gives whose type stands there.
func (b *body) carries(at int) {
	if b.r.err != nil {
		return
	}
	b.note(opens, 0)
	f := &b.frames[len(b.frames)-1]
	if f.op == opLoop {
		b.noteCheck()
	}
	r := reader{b: b.out[at:]}
	if i := r.signed(33); i >= 0 && i < int64(len(b.m.types)) {
		f.results = len(b.m.types[i].params) + len(b.m.types[i].results)
	} else if r.b[0] != typeNone {
		f.results = 1
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
		b.note(mayGo, depth)
		b.label(depth)
		b.branch(depth)
		if b.r.err != nil {
			return
		}
	}
	b.note(stops, 0) // behind the targets, since liveness goes backwards
	b.now = dead
}

// operands copy what stands behind an instruction, by its form. What is not there
// is no instruction that is accepted.
var operands = [...]func(b *body, op byte){
	formIndirect: (*body).indirect,
	formLocal:    func(b *body, op byte) { b.variable(op == opLocalGet, b.index("local", b.locals)) },
	formGlobal:   (*body).global,
	formTable:    func(b *body, _ byte) { b.out = appendU32(b.out, b.m.tableIndex(b.r)) },
	formMemarg:   func(b *body, _ byte) { b.memarg() },
	formMemory:   (*body).sizeOrGrow,
	formI32:      func(b *body, _ byte) { b.out = appendS64(b.out, b.r.signed(32)) },
	formI64:      func(b *body, _ byte) { b.out = appendS64(b.out, b.r.signed(64)) },
	formF32:      func(b *body, _ byte) { b.out = append(b.out, b.r.bytes(4)...) },
	formF64:      func(b *body, _ byte) { b.out = append(b.out, b.r.bytes(8)...) },
	formSelect:   (*body).typedSelect,
	formNull:     (*body).null,
	formMore:     func(b *body, _ byte) { b.more() },
	formSIMD:     func(b *body, _ byte) { b.simd() },
}

func (b *body) operand(op byte, f form) {
	if int(f) >= len(operands) || operands[f] == nil {
		b.feature("instruction 0x%02x", op)
		return
	}
	operands[f](b, op)
}

func (b *body) indirect(op byte) {
	const places = 2 // where in the table it looks, and what it finds there
	b.calls.indirect = true
	b.kept.values += places
	b.sum += shortPath
	t, table := b.m.typeIndex(b.r), b.m.tableIndex(b.r)
	if b.r.err != nil {
		return
	}
	b.called(b.m.types[t])
	b.call(appendU32(appendU32([]byte{op}, t), table), false)
	b.look()
}

func (b *body) global(op byte) {
	if i := b.index("global", uint32(b.m.globals)); b.r.err == nil {
		b.kept.globals = max(b.kept.globals, i+1)
		b.variable(op == opGlobalGet, b.globalVariable(i))
	}
}

func (b *body) sizeOrGrow(op byte) {
	b.memory()
	if op == opMemoryGrow && b.r.err == nil {
		b.chargeGrow()
	}
}

func (b *body) typedSelect(byte) {
	if n := b.r.u32(); b.r.err == nil && n != 1 {
		b.r.fail("a select has not one type")
	}
	b.out = append(b.out, 1, b.m.valueType(b.r))
}

func (b *body) null(byte) {
	if t := b.r.byte(); b.r.err == nil && t != typeFuncref {
		b.feature("a null reference of type 0x%02x", t)
	}
	b.out = append(b.out, typeFuncref)
}

func (b *body) feature(format string, code any) {
	b.refuse(refuse(RuleFeature, "turn the feature off in the compiler", "it uses "+format+", which this host does not accept", code))
}

func (b *body) index(what string, have uint32) uint32 {
	i := b.r.u32()
	if b.r.err == nil && i >= have {
		b.refuse(refuse(RuleReserved, adviceRebuild, "it names %s %d of %d", what, i, have))
	}
	b.out = appendU32(b.out, i)
	return i
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
