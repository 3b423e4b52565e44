package vet

import "slices"

// maxLocals guards the arithmetic; Limits.Locals stands far below.
const maxLocals = 1 << 20

// codeShare is how many times a module's limit its code may come to when the
// meter is in it: compilers' own does not double, but a call of two bytes may
// take twelve.
const codeShare = 2

// codeSection rewrites every function. It runs last, when all that a function
// may name is known.
func (m *module) codeSection() ([]byte, *Refusal) {
	own := m.functions[m.imports:]
	all, err := m.surveys(own)
	if err != nil {
		return nil, err
	}
	m.excuse(all)
	edges := make([]calls, len(all))
	for i := range all {
		edges[i] = all[i].calls
	}
	deep := recursive(edges, m.imports, m.taken)
	out := appendU32(make([]byte, 0, len(m.code.b)+len(m.code.b)/2), uint32(len(all)))
	for i := range all {
		f := m.function(&all[i], m.types[own[i]], all)
		if err := all[i].code.err; err != nil {
			err.Function = m.imports + i
			return nil, err
		}
		if out = m.appendFunction(out, &f, m.types[own[i]], deep[i]); len(out) > codeShare*m.limits.Bytes {
			return nil, tooMany("bytes of code, with the meter", uint64(len(out)), codeShare*m.limits.Bytes, adviceSplit)
		}
	}
	return out, nil
}

// surveys is the first pass over every function; own are their types.
func (m *module) surveys(own []uint32) ([]survey, *Refusal) {
	r := m.code
	n := r.count("function bodies", m.limits.Functions, "split the module")
	if r.err == nil && n != len(own) {
		r.fail("it has another number of bodies than of functions")
	}
	all := make([]survey, 0, n)
	for i := range n {
		size := r.u32()
		if r.err == nil && int64(size) > int64(m.limits.BodyBytes) {
			r.err = tooMany("bytes of code", uint64(size), m.limits.BodyBytes, adviceSplit)
		}
		code := r.sub(int(size))
		var s survey
		if code.err == nil {
			s = m.survey(code, m.types[own[i]])
		}
		if code.err != nil {
			if i < len(own) {
				code.err.Function = m.imports + i
			}
			return nil, code.err
		}
		all = append(all, s)
		m.report.BodyBytes = max(m.report.BodyBytes, int(size))
	}
	if r.err == nil && r.left() > 0 {
		r.fail("the code section holds more than it says")
	}
	return all, r.err
}

// flow adds to what the compiler's time goes by.
func (m *module) flow(r *reader, body int) {
	const advice = "split the module, or its functions of many locals and branches"
	if body > m.limits.BodyFlow {
		r.err = tooMany("locals times blocks", uint64(body), m.limits.BodyFlow, advice)
		return
	}
	if m.report.Flow += body; m.report.Flow > m.limits.Flow {
		r.err = tooMany("locals times blocks of all functions so far", uint64(m.report.Flow), m.limits.Flow, advice)
	}
}

// fewLocals stands for what a function holds beside its locals.
const fewLocals = 8

type localGroup struct {
	n uint32
	t byte
}

// survey is what the first pass learns of a function, and what follows from all
// of them.
type survey struct {
	code   *reader
	start  int // of its instructions
	locals uint32
	groups []localGroup
	calls  calls
	turns  []turns
	sum    int  // of its instructions' prices
	path   int  // the dearest way through, if it neither loops nor calls
	short  bool // its path is short
	free   bool // its callers pay for it
	heavy  bool // it may run for long without coming by a loop or an entry
}

const (
	// shortPath is what a function may cost that never looks at its fuel.
	shortPath = 96
	// heavySum is what a function may cost between two looks.
	heavySum = 100_000
)

// plan is what the second pass goes by.
type plan struct {
	*survey
	entry check
	all   []survey
}

func (m *module) survey(r *reader, t funcType) survey {
	groups, locals := m.localGroups(r, len(t.params))
	if r.err != nil {
		return survey{}
	}
	if m.report.AllLocals += int(locals); m.report.AllLocals > m.limits.AllLocals {
		r.err = at(tooMany("locals of all functions so far", uint64(m.report.AllLocals), m.limits.AllLocals, "split the module"), r.base+r.pos)
		return survey{}
	}
	s := survey{code: r, start: r.pos, locals: locals, groups: groups}
	b := m.body(r, locals, nil)
	b.run()
	if r.err != nil {
		return survey{}
	}
	s.calls, s.turns, s.sum = b.calls, b.turns, b.sum
	if len(b.calls.direct) == 0 && !b.calls.indirect && len(b.turns) == 0 && !b.scratch {
		s.path = b.path()
		s.short = s.path <= shortPath
	}
	return s
}

// excuse finds the functions that need no meter of their own, and those that
// need more of one.
func (m *module) excuse(all []survey) {
	for i := range all {
		all[i].free = all[i].short && !m.exact
	}
	for _, f := range m.taken {
		if int(f) >= m.imports {
			all[int(f)-m.imports].free = false
		}
	}
	for _, e := range m.exports {
		if e.kind == kindFunc && int(e.index) >= m.imports {
			all[int(e.index)-m.imports].free = false
		}
	}
	for i := range all {
		s := &all[i]
		sum := s.sum
		for _, f := range s.calls.direct {
			if int(f) >= m.imports && all[int(f)-m.imports].short {
				sum += shortPath
			}
		}
		s.heavy = sum > heavySum
	}
}

func (m *module) function(s *survey, t funcType, all []survey) function {
	r := s.code
	r.pos = s.start
	b := m.body(r, s.locals, &plan{survey: s, all: all})
	if !s.short {
		b.plan.entry = asks
		b.count(1)
	}
	b.run()
	b.place()
	late := s.returns(m.imports, all) && b.chargesLate()
	if late {
		b.count(2)
	}
	if r.err != nil {
		return function{}
	}
	rep := &m.report
	if m.flow(r, (int(s.locals)+fewLocals)*b.blocks); r.err != nil {
		return function{}
	}
	rep.Locals = max(rep.Locals, int(s.locals))
	rep.Nesting = max(rep.Nesting, b.deepest)
	rep.Blocks = max(rep.Blocks, b.blocks)
	rep.BranchAll = max(rep.BranchAll, b.branches)
	if s.free {
		return function{groups: s.groups, code: b.out, locals: s.locals, marks: b.marks, free: true, frame: b.frameBytes(t)}
	}
	groups := append(s.groups, localGroup{1, typeI64})
	if b.scratch {
		groups = append(groups, localGroup{1, typeI32})
	}
	return function{groups: groups, code: b.withCharges(), locals: s.locals, marks: b.marks, late: late, frame: b.frameBytes(t)}
}

// returns says whether functions that look at their fuel return to this one.
func (s *survey) returns(imports int, all []survey) bool {
	return s.calls.indirect || slices.ContainsFunc(s.calls.direct, func(f uint32) bool {
		return int(f) >= imports && !all[int(f)-imports].short
	})
}

// function is one function's rewritten code, until the next one's body begins.
type function struct {
	groups []localGroup
	code   []byte
	locals uint32 // of its own; the first beyond them is for vet's use
	marks  []mark
	free   bool
	late   bool  // it looks at its fuel at its end
	frame  int64 // what a call takes of the stack
}

// appendFunction writes a function with its length before it; one that may call
// itself, or takes much of the stack, pays for its place there while it runs.
func (m *module) appendFunction(out []byte, f *function, t funcType, deep bool) []byte {
	head := appendU32(nil, uint32(len(f.groups)))
	for _, g := range f.groups {
		head = append(appendU32(head, g.n), g.t)
	}
	code, before := f.code, 0
	if m.framed != nil {
		m.framed(f.frame)
	}
	if deep {
		m.report.Recursive++
	}
	if !f.free {
		code, before = m.wrap(f, t, deep || f.frame > largeFrame)
	}
	out = appendU32(out, uint32(len(head)+len(code)))
	m.placed(f.marks, len(out)+len(head)+before)
	return append(append(out, head...), code...)
}

// localGroups reads the declared locals and counts them with the parameters.
func (m *module) localGroups(r *reader, params int) ([]localGroup, uint32) {
	n := r.count("groups of locals", maxLocals, "")
	total := uint64(params)
	var groups []localGroup
	for range n {
		g := localGroup{r.u32(), m.valueType(r)}
		if total += uint64(g.n); r.err == nil && total > uint64(m.limits.Locals) {
			r.err = tooMany("locals", total, m.limits.Locals, adviceSplit)
		}
		if r.err != nil {
			return nil, 0
		}
		groups = append(groups, g)
	}
	return groups, uint32(total)
}

// appendReferences writes a global for each function that code refers to.
func (m *module) appendReferences(out []byte) []byte {
	functions := make([]uint32, len(m.references))
	for f, n := range m.references {
		functions[n] = f
	}
	for _, f := range functions {
		out = append(appendU32(append(out, typeFuncref, 0, opRefFunc), m.moved(f)), opEnd)
	}
	return out
}

// write puts the module together again, with the counter and what is left of the
// stack as globals after its own and as exports, and with the import by which it asks for more.
func (m *module) write() ([]byte, *Refusal) {
	yield := uint32(m.typeOf(funcType{}))
	code, err := m.codeSection()
	if err != nil {
		return nil, err
	}
	globals := append(appendU32(nil, uint32(m.globals+2+len(m.references))), m.sections[secGlobal]...)
	globals = append(globals, typeI64, 1, opI64Const, 0, opEnd)
	globals = append(appendS64(append(globals, typeI64, 1, opI64Const), stackBytes), opEnd)
	globals = m.appendReferences(globals)
	exports := append(appendU32(nil, uint32(len(m.exports))+2), m.sections[secExport]...)
	exports = appendU32(append(appendName(exports, FuelExport), kindGlobal), m.counter())
	exports = appendU32(append(appendName(exports, StackExport), kindGlobal), m.stackLeft())
	m.sections[secGlobal], m.sections[secExport], m.sections[secCode] = globals, exports, code
	imports := append(appendU32(nil, uint32(m.imports)+1), m.sections[secImport]...)
	m.sections[secImport] = appendU32(append(appendName(appendName(imports, YieldModule), YieldName), kindFunc), yield)
	m.sections[secType] = m.typeBytes()

	out := append(make([]byte, 0, len(code)+len(m.sections[secData])+64<<10), header...)
	for _, id := range []byte{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secElement, secDataCount, secCode, secData} {
		if m.sections[id] != nil {
			out = appendSection(out, id, m.sections[id])
		}
	}
	if len(m.names) > 0 {
		out = appendSection(out, secCustom, m.nameSection())
	}
	if len(m.marks) > 0 {
		out = m.appendLines(out)
	}
	return out, nil
}
