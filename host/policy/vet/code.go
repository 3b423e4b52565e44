package vet

// maxLocals guards the arithmetic; Limits.Locals stands far below.
const maxLocals = 1 << 20

// codeSection rewrites every function. It runs last, when all that a function
// may name is known.
func (m *module) codeSection() ([]byte, *Refusal) {
	r := m.code
	own := m.functions[m.imports:]
	n := r.count("function bodies", m.limits.Functions, "split the module")
	if r.err == nil && n != len(own) {
		r.fail("it has another number of bodies than of functions")
	}
	functions := make([]function, 0, n)
	edges := make([]calls, 0, n)
	for i := range n {
		size := r.u32()
		if r.err == nil && int64(size) > int64(m.limits.BodyBytes) {
			r.err = tooMany("bytes of code", uint64(size), m.limits.BodyBytes, adviceSplit)
		}
		code := r.sub(int(size))
		var f function
		if code.err == nil {
			f = m.function(code, m.types[own[i]])
		}
		if code.err != nil {
			if i < len(own) {
				code.err.Function = m.imports + i
			}
			return nil, code.err
		}
		functions, edges = append(functions, f), append(edges, f.calls)
		m.report.BodyBytes = max(m.report.BodyBytes, int(size))
	}
	if r.err == nil && r.left() > 0 {
		r.fail("the code section holds more than it says")
	}
	if r.err != nil {
		return nil, r.err
	}
	out := appendU32(make([]byte, 0, len(r.b)+len(r.b)/2), uint32(n))
	for i, deep := range recursive(edges, m.imports, m.taken) {
		out = m.appendFunction(out, &functions[i], m.types[own[i]], deep)
	}
	return out, nil
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

// function is one function's rewritten code.
type function struct {
	groups []localGroup
	code   []byte
	locals uint32 // of its own; the first beyond them is for vet's use
	calls  calls
	marks  []mark
}

func (m *module) function(r *reader, t funcType) function {
	groups, locals := m.localGroups(r, len(t.params))
	if r.err != nil {
		return function{}
	}
	b := &body{m: m, r: r, locals: locals, out: make([]byte, 0, len(r.b)+len(r.b)/4)}
	b.run()
	if b.place(); r.err != nil {
		return function{}
	}
	rep := &m.report
	if m.flow(r, (int(locals)+fewLocals)*b.blocks); r.err != nil {
		return function{}
	}
	rep.Locals = max(rep.Locals, int(locals))
	rep.Nesting = max(rep.Nesting, b.deepest)
	rep.Blocks = max(rep.Blocks, b.blocks)
	rep.BranchAll = max(rep.BranchAll, b.branches)
	groups = append(groups, localGroup{1, typeI64})
	if b.scratch {
		groups = append(groups, localGroup{1, typeI32})
	}
	code := b.withCharges()
	return function{groups: groups, code: code, locals: locals, calls: b.calls, marks: b.marks}
}

// appendFunction writes a function with its length before it; one that may call
// itself pays for its place on the stack while it runs.
func (m *module) appendFunction(out []byte, f *function, t funcType, deep bool) []byte {
	head := appendU32(nil, uint32(len(f.groups)))
	for _, g := range f.groups {
		head = append(appendU32(head, g.n), g.t)
	}
	code, before := f.code, 0
	if deep {
		m.report.Recursive++
		code, before = m.withDepth(f, t)
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

// write puts the module together again, with the counter as its last global and
// as an export.
func (m *module) write() ([]byte, *Refusal) {
	code, err := m.codeSection()
	if err != nil {
		return nil, err
	}
	globals := append(appendU32(nil, uint32(m.globals)+2), m.sections[secGlobal]...)
	globals = append(globals, typeI64, 1, opI64Const, 0, opEnd)
	globals = append(appendS64(append(globals, typeI64, 1, opI64Const), stackBytes), opEnd)
	exports := append(appendU32(nil, uint32(len(m.exports))+2), m.sections[secExport]...)
	exports = appendU32(append(appendName(exports, FuelExport), kindGlobal), m.counter())
	exports = appendU32(append(appendName(exports, StackExport), kindGlobal), m.stackLeft())
	m.sections[secGlobal], m.sections[secExport], m.sections[secCode] = globals, exports, code
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
