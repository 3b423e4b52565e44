package vet

import "slices"

// Where the fuel of a slice has run out, the guest calls the host, which grants
// the next slice or ends the call. The host is Go, so its collector and its
// other goroutines get their turn there.
//
// A call in the midst of a loop makes the compiler store the values that live
// across it whenever they change, though it is hardly ever taken. Where a loop
// calls anyway, that is so already. One that does not is left to yield, and
// entered again: then they are stored where it is left.
//
//	block
//	  loop
//	    block
//	      loop              the guest's
//	        br_if left < 0  to the end of the inner block
//	        …
//	      end
//	      br                to the end of the outer block
//	    end
//	    flush; yield; load; br to the outer loop
//	  end
//	end

// YieldModule and YieldName name the import by which a guest asks for its next
// slice of fuel. It leaves what is left, a negative number, in the counter, and
// finds its next slice there. No module can name it: it is not in Imports.
const (
	YieldModule = ReservedPrefix + "meter"
	YieldName   = "yield"
)

// yield is the index of that import: the first after the guest's.
func (m *module) yield() uint32 { return uint32(m.imports) }

// moved is where a function of the guest stands in what vet writes.
func (m *module) moved(f uint32) uint32 {
	if int64(f) >= int64(m.imports) {
		return f + 1
	}
	return f
}

// turns is what the first pass learns of a loop.
type turns struct {
	calls  bool // it calls, or does what takes a check of its own
	params bool // it takes values off the operand stack
}

// leaves says whether the loop is left to yield.
func (t turns) leaves() bool { return !t.calls && !t.params }

// extra is how many blocks stand around a loop that is left to yield.
const extra = 3

// surround puts those blocks before a loop whose opcode begins at start.
func (b *body) surround(start int) {
	t := slices.Clone(b.out[start+1:])
	b.out = append(append(b.out[:start], opBlock), t...)
	b.out = append(append(b.out, opLoop), t...)
	b.out = append(b.out, opBlock, typeNone)
	b.out = append(append(b.out, opLoop), t...)
	b.count(extra)
}

// resume follows the end of such a loop.
func (b *body) resume() {
	b.out = append(b.out, opBr, extra-1, opEnd)
	b.out = append(b.ask(b.out), opBr, 0, opEnd, opEnd)
}

// ask calls the host for the next slice.
func (b *body) ask(out []byte) []byte {
	out = appendU32(append(b.flush(out), opCall), b.m.yield())
	return b.load(out)
}

// check asks where there is no fuel left:
//
//	if left < 0 { flush; yield; load }
func (b *body) check(out []byte) []byte {
	out = appendU32(append(out, opLocalGet), b.locals)
	out = append(out, opI64Const, 0, opI64LtS, opIf, typeNone)
	return append(b.ask(out), opEnd)
}

// leave goes to the end of the block around a loop where there is no fuel left.
func (b *body) leave(out []byte) []byte {
	out = appendU32(append(out, opLocalGet), b.locals)
	return append(out, opI64Const, 0, opI64LtS, opBrIf, 1)
}

// loop begins a loop whose opcode stands at start.
func (b *body) loop(f *frame, start int) {
	f.turns = len(b.turns)
	t := turns{params: b.hasParams(b.out[start+1:])}
	checks := asks
	if b.plan != nil && b.plan.turns[f.turns].leaves() {
		b.surround(start)
		f.added += extra
		checks = leaves
	}
	b.turns = append(b.turns, t)
	b.inside = append(b.inside, f.turns)
	b.outer = append(b.outer, b.now)
	b.begin(true)
	b.nodes[b.now].checks = checks
	b.count(1)
}

// endLoop is what follows a loop's end.
func (b *body) endLoop(f *frame) {
	b.inside = b.inside[:len(b.inside)-1]
	if b.turns[f.turns].calls {
		b.calling()
	}
	if b.plan != nil && b.plan.turns[f.turns].leaves() {
		b.resume()
	}
}

// hasParams says whether a block of that type takes values.
func (b *body) hasParams(t []byte) bool {
	r := reader{b: t}
	i := r.signed(33)
	return i >= 0 && i < int64(len(b.m.types)) && len(b.m.types[i].params) > 0
}

// calling notes that the loop here calls.
func (b *body) calling() {
	if n := len(b.inside); n > 0 {
		b.turns[b.inside[n-1]].calls = true
	}
}

// label writes the depth of a label, with vet's blocks between.
func (b *body) label(depth uint32) {
	if top := len(b.frames) - 1; int64(depth) <= int64(top) {
		depth += uint32(b.frames[top].added - b.frames[top-int(depth)].added)
	}
	b.out = appendU32(b.out, depth)
}
