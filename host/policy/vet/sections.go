package vet

import "slices"

func (m *module) accepts(t byte) bool {
	switch t {
	case typeI32, typeI64, typeF32, typeF64, typeFuncref:
		return true
	case typeV128:
		return !m.limits.NoSIMD
	default:
		return false
	}
}

func (m *module) valueType(r *reader) byte {
	t := r.byte()
	if m.accepts(t) {
		m.wide = m.wide || t == typeV128
		return t
	}
	if r.err == nil {
		r.err = refuse(RuleFeature, "turn the feature off in the compiler", "it uses a value type 0x%02x that this host does not accept", t)
		r.err.Offset = r.base + r.pos - 1
	}
	return typeI32
}

func (m *module) valueTypes(r *reader, what string, limit int) []byte {
	n := r.count(what, limit, "pass a pointer to a struct")
	types := make([]byte, 0, n)
	for range n {
		types = append(types, m.valueType(r))
	}
	return types
}

func (m *module) typeSection(r *reader) *Refusal {
	n := r.count("function types", m.limits.Types, "")
	for range n {
		if form := r.byte(); r.err == nil && form != 0x60 {
			return refuse(RuleFeature, "turn garbage-collected types off in the compiler", "it has a type of form 0x%02x, which is no function", form)
		}
		t := funcType{m.valueTypes(r, "parameters", m.limits.Params), m.valueTypes(r, "results", m.limits.Results)}
		if r.err != nil {
			return r.err
		}
		m.types = append(m.types, t)
	}
	m.report.Types = n
	return r.err
}

// typeBytes writes the types, with those that vet added.
func (m *module) typeBytes() []byte {
	out := appendU32(nil, uint32(len(m.types)))
	for _, t := range m.types {
		out = append(out, 0x60)
		out = append(appendU32(out, uint32(len(t.params))), t.params...)
		out = append(appendU32(out, uint32(len(t.results))), t.results...)
	}
	return out
}

func (m *module) typeIndex(r *reader) uint32 {
	i := r.u32()
	if r.err == nil && int64(i) >= int64(len(m.types)) {
		r.fail("it names a type that it does not have")
	}
	if r.err != nil {
		return 0
	}
	return i
}

func (m *module) importSection(r *reader) *Refusal {
	n := r.count("imports", m.limits.Imports, "")
	var out []byte
	for range n {
		from, name, kind := r.name(), r.name(), r.byte()
		if r.err == nil && kind != kindFunc {
			return refuse(RuleImport, "a policy owns its memory, tables and globals", "it imports %q from %q, which is no function", clip(name), clip(from))
		}
		t := m.typeIndex(r)
		if r.err != nil {
			return r.err
		}
		if err := checkImport(from, name, m.types[t]); err != nil {
			return err
		}
		m.functions = append(m.functions, t)
		m.report.Imports = append(m.report.Imports, from+"."+name)
		out = appendU32(append(appendName(appendName(out, from), name), kindFunc), t)
	}
	m.imports = n
	m.sections[secImport] = out // without their number: vet adds one
	return r.err
}

func (m *module) functionSection(r *reader) *Refusal {
	n := r.count("functions", m.limits.Functions, "split the module")
	out := appendU32(nil, uint32(n))
	m.functions = slices.Grow(m.functions, n)
	for range n {
		t := m.typeIndex(r)
		m.functions = append(m.functions, t)
		out = appendU32(out, t)
	}
	m.report.Functions = n
	m.sections[secFunction] = out
	return r.err
}

// sizes reads the limits of a memory or a table: least, and most where given.
func sizes(r *reader) (least uint32, most uint64) {
	const none = 1 << 32
	switch flags := r.byte(); {
	case r.err != nil:
		return 0, 0
	case flags == 0:
		return r.u32(), none
	case flags == 1:
		return r.u32(), uint64(r.u32())
	default:
		r.err = refuse(RuleFeature, "turn threads and 64-bit memories off in the compiler", "a memory or table is shared or 64-bit")
		return 0, 0
	}
}

func (m *module) tableSection(r *reader) *Refusal {
	n := r.count("tables", m.limits.Tables, "")
	out := appendU32(nil, uint32(n))
	for range n {
		if t := r.byte(); r.err == nil && t != typeFuncref {
			return refuse(RuleFeature, "use tables of functions only", "it has a table of type 0x%02x", t)
		}
		least, most := sizes(r)
		if r.err != nil {
			return r.err
		}
		if int64(least) > int64(m.limits.TableEntries) {
			return tooMany("a table's entries", uint64(least), m.limits.TableEntries, "split the module")
		}
		if most < uint64(least) {
			return refuse(RuleFormat, adviceRebuild, "a table's least size exceeds its greatest")
		}
		// Nothing can make it grow, so its greatest size is its least.
		out = appendU32(appendU32(append(out, typeFuncref, 1), least), least)
		m.places += int(least)
		m.report.TableSize = max(m.report.TableSize, int(least))
	}
	m.tables = n
	m.sections[secTable] = out
	return nil
}

func (m *module) memorySection(r *reader) *Refusal {
	n := r.count("memories", 1, "a policy has one memory")
	for range n {
		least, most := sizes(r)
		if r.err != nil {
			return r.err
		}
		limit := m.limits.pages()
		if least > limit {
			return refuse(RuleMemory, "raise limits.memoryBytes in its Policy, or let the module start smaller", "it starts with %d KiB of memory, the cap is %d KiB", uint64(least)*64, uint64(limit)*64)
		}
		if most < uint64(least) {
			return refuse(RuleFormat, adviceRebuild, "the memory's least size exceeds its greatest")
		}
		m.report.MemoryMin, m.report.MemoryMax = least, uint32(min(most, uint64(limit)))
		m.sections[secMemory] = appendU32(appendU32([]byte{1, 1}, least), m.report.MemoryMax)
	}
	m.memories = n
	return r.err
}

func (m *module) globalSection(r *reader) *Refusal {
	n := r.count("globals", m.limits.Globals, "")
	var out []byte
	for i := range n {
		t, mutable := m.valueType(r), r.byte()
		if r.err == nil && mutable > 1 {
			r.fail("a global is neither fixed nor mutable")
		}
		out = append(out, t, mutable)
		out = m.constant(r, out, i)
		if r.err != nil {
			return r.err
		}
	}
	m.globals, m.report.Globals = n, n
	m.sections[secGlobal] = out
	return r.err
}

// constant copies a constant expression; globals is how many it may name.
func (m *module) constant(r *reader, out []byte, globals int) []byte {
	const end = 0x0b
	switch c := r.byte(); c {
	case 0x41, 0x42, 0x43, 0x44:
		out = literal(r, append(out, c), c)
	case 0x23:
		g := r.u32()
		if r.err == nil && int64(g) >= int64(globals) {
			r.fail("a constant names a global that does not stand before it")
		}
		out = appendU32(append(out, c), g)
	case 0xd0:
		if t := r.byte(); r.err == nil && t != typeFuncref {
			r.fail("a null reference is of no type that is accepted")
		}
		out = append(out, c, typeFuncref)
	case 0xd2:
		out = appendU32(append(out, c), m.moved(m.take(r)))
	case 0xfd:
		if sub := r.u32(); r.err == nil && (sub != 12 || m.limits.NoSIMD) {
			r.fail("a constant uses an instruction that is not accepted")
		}
		out = append(append(out, c, 12), r.bytes(16)...)
	default:
		r.fail("a constant uses an instruction that is not accepted")
	}
	if r.byte() != end && r.err == nil {
		r.fail("a constant has more than one instruction")
	}
	return append(out, end)
}

// literal copies the number behind an instruction that gives one.
func literal(r *reader, out []byte, op byte) []byte {
	switch op {
	case 0x41:
		return appendS64(out, r.signed(32))
	case 0x42:
		return appendS64(out, r.signed(64))
	case 0x43:
		return append(out, r.bytes(4)...)
	}
	return append(out, r.bytes(8)...)
}

func (m *module) funcIndex(r *reader) uint32 {
	i := r.u32()
	if r.err == nil && int64(i) >= int64(len(m.functions)) {
		r.fail("it names a function that it does not have")
	}
	if r.err != nil {
		return 0
	}
	return i
}

func (m *module) exportSection(r *reader) *Refusal {
	n := r.count("exports", m.limits.Exports, "")
	var out []byte
	for range n {
		name, kind, index := r.name(), r.byte(), r.u32()
		if r.err != nil {
			return r.err
		}
		if len(name) >= len(ReservedPrefix) && name[:len(ReservedPrefix)] == ReservedPrefix {
			return refuse(RuleExport, "choose another name", "its export %q uses a name that the host keeps for itself", clip(name))
		}
		if _, twice := m.exports[name]; twice {
			return refuse(RuleFormat, adviceRebuild, "it exports %q twice", clip(name))
		}
		if kind > kindGlobal || uint64(index) >= uint64(m.space(kind)) {
			return refuse(RuleReserved, adviceRebuild, "its export %q names something that it does not have", clip(name))
		}
		m.exports[name] = export{kind, index}
		m.report.Exports = append(m.report.Exports, name)
		if kind == kindFunc {
			index = m.moved(index)
		}
		out = appendU32(append(appendName(out, name), kind), index)
	}
	m.sections[secExport] = out
	return r.err
}

// space is how many functions, tables, memories or globals the guest may name.
func (m *module) space(kind byte) int {
	return [...]int{len(m.functions), m.tables, m.memories, m.globals}[kind]
}

func (m *module) elementSection(r *reader) *Refusal {
	n := r.count("element segments", m.limits.Elements, "")
	out := appendU32(nil, uint32(n))
	for range n {
		if out = m.element(r, out); r.err != nil {
			return r.err
		}
	}
	m.report.Elements = n
	m.sections[secElement] = out
	return r.err
}

// element copies one segment. Bit 0 of its flags: passive or declared; bit 1: a
// table index or declared; bit 2: expressions instead of indices.
func (m *module) element(r *reader, out []byte) []byte {
	flags := r.u32()
	if r.err == nil && flags > 7 {
		r.fail("an element segment is of an unknown kind")
		return out
	}
	out = appendU32(out, flags)
	if flags&1 == 0 {
		if flags&2 != 0 {
			out = appendU32(out, m.tableIndex(r))
		}
		out = m.constant(r, out, m.globals)
	}
	if flags&3 != 0 {
		kind, want := r.byte(), byte(0)
		if flags&4 != 0 {
			want = typeFuncref
		}
		if r.err == nil && kind != want {
			r.fail("an element segment holds something else than functions")
		}
		out = append(out, kind)
	}
	n := r.count("entries of an element segment", m.limits.TableEntries, "")
	if m.entries += n; r.err == nil && m.entries > m.limits.TableEntries {
		r.err = at(tooMany("entries of all element segments", uint64(m.entries), m.limits.TableEntries, "split the module"), r.base+r.pos)
		return out
	}
	out = appendU32(out, uint32(n))
	for range n {
		if flags&4 != 0 {
			out = m.constant(r, out, m.globals)
			continue
		}
		out = appendU32(out, m.moved(m.take(r)))
	}
	return out
}

// take reads the index of a function that a table or a reference may hold.
func (m *module) take(r *reader) uint32 {
	f := m.funcIndex(r)
	m.taken = append(m.taken, f)
	return f
}

func (m *module) tableIndex(r *reader) uint32 {
	i := r.u32()
	if r.err == nil && int64(i) >= int64(m.tables) {
		r.fail("it names a table that it does not have")
	}
	return i
}

func (m *module) dataCountSection(r *reader) *Refusal {
	n := r.u32()
	if r.err == nil && int64(n) > int64(m.limits.Data) {
		return tooMany("data segments", uint64(n), m.limits.Data, "")
	}
	m.data = int(n)
	m.sections[secDataCount] = appendU32(nil, n)
	return r.err
}

func (m *module) dataSection(r *reader) *Refusal {
	n := r.count("data segments", m.limits.Data, "")
	if r.err == nil && m.data >= 0 && n != m.data {
		r.fail("it announces another number of data segments than it holds")
	}
	out := appendU32(make([]byte, 0, len(r.b)), uint32(n))
	for range n {
		flags := r.u32()
		if r.err == nil && flags > 1 && flags != 2 {
			r.fail("a data segment is of an unknown kind")
		}
		if flags == 2 && r.u32() != 0 {
			r.fail("a data segment names a memory that it does not have")
		}
		out = append(out, byte(flags&1))
		if flags != 1 {
			out = m.constant(r, out, m.globals)
		}
		bytes := r.bytes(int(r.u32()))
		if r.err != nil {
			return r.err
		}
		out = append(appendU32(out, uint32(len(bytes))), bytes...)
	}
	m.report.Data = n
	m.sections[secData] = out
	return r.err
}
