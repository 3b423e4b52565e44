// Package wasmtest assembles WebAssembly modules for tests: good ones, and ones
// that no compiler would emit.
package wasmtest

import (
	"encoding/binary"
	"math"
)

// Value types.
const (
	I32  = 0x7f
	I64  = 0x7e
	F32  = 0x7d
	F64  = 0x7c
	Void = 0x40
)

// Module is a module in the making. The order of calls does not matter, save
// that imports come before functions.
type Module struct {
	// Memory is the least and the greatest number of pages; none if nil.
	Memory *[2]uint32
	Start  *uint32
	Sizes  []uint32 // tables of functions
	Raw    [][]byte // sections put at the end as they are
	Elem   []uint32 // functions at the start of the first table
	// Elements are passive segments of functions, behind that of Elem.
	Elements [][]uint32
	imports  [][]byte
	types    [][]byte
	funcs    [][]byte
	exports  [][]byte
	globals  [][]byte
	data     [][]byte
	bodies   [][]byte
	names    []string
	byName   map[string]uint32
}

// Empty returns a module with a memory of one page that may grow to 1,024.
func Empty() *Module {
	return &Module{Memory: &[2]uint32{1, 1024}, byName: map[string]uint32{}}
}

// Where a policy of Policy keeps things.
const (
	InputAt    = 4096
	ManifestAt = 64
)

// askRows is a pod's answer that its rows are to be asked.
const askRows = 0

// Manifest is what a module of Policy says of itself.
const Manifest = `{"abi":1,"module":"test","version":"1","policies":[{"name":"test","kind":"predicate","reads":["node.capacity"],"scope":"row"}]}`

// Policy returns a module with all that every policy has: the marker, a
// manifest, an input buffer that begins at InputAt, and an open that agrees. The
// imported functions have the indices from 0 on.
func Policy(imports ...Import) *Module {
	m := Empty()
	for _, i := range imports {
		m.Import(i.From, i.Name, i.Type)
	}
	m.Data(ManifestAt, []byte(Manifest))
	m.Export("berth_abi_v1", Sig(nil), nil)
	m.Export("berth_manifest", Sig(nil, I64), nil, I64Const(ManifestAt<<32|int64(len(Manifest))))
	m.Export("berth_input", Sig([]byte{I32}, I32), nil, I32Const(InputAt))
	m.Export("berth_open", Sig([]byte{I32}, I32), nil, I32Const(0))
	m.Export("berth_apply", Sig([]byte{I32}, I32), nil, I32Const(0))
	m.Export("berth_pod", Sig([]byte{I32}, I64), nil, I64Const(askRows))
	return m
}

// Import is a function that a module imports.
type Import struct {
	From, Name string
	Type       Type
}

// Type is a function type.
type Type struct{ params, results []byte }

// Sig is the type from params to results.
func Sig(params []byte, results ...byte) Type { return Type{params, results} }

func (t Type) bytes() []byte {
	b := append([]byte{0x60}, vec(t.params)...)
	return append(b, vec(t.results)...)
}

func vec(b []byte) []byte { return append(U32(uint32(len(b))), b...) }

// Name is a string with its length before it.
func Name(s string) []byte { return vec([]byte(s)) }

// Type returns the index of a type, adding it if it is new.
func (m *Module) Type(t Type) uint32 {
	b := t.bytes()
	for i, have := range m.types {
		if string(have) == string(b) {
			return uint32(i)
		}
	}
	m.types = append(m.types, b)
	return uint32(len(m.types) - 1)
}

// Import adds an imported function.
func (m *Module) Import(from, name string, t Type) uint32 {
	b := append(Name(from), Name(name)...)
	m.imports = append(m.imports, append(append(b, 0), U32(m.Type(t))...))
	m.names = append(m.names, name)
	return uint32(len(m.imports) - 1)
}

// ImportRaw adds an import of any kind, by its bytes after the two names.
func (m *Module) ImportRaw(from, name string, desc ...byte) {
	m.imports = append(m.imports, append(append(Name(from), Name(name)...), desc...))
}

// Func adds a function whose locals have the given types.
func (m *Module) Func(name string, t Type, locals []byte, code ...[]byte) uint32 {
	b := U32(uint32(len(locals)))
	for _, l := range locals {
		b = append(b, 1, l)
	}
	return m.FuncRaw(name, t, append(b, Seq(append(code, Op(0x0b))...)...))
}

// FuncRaw adds a function by its bytes: locals, code, and end.
func (m *Module) FuncRaw(name string, t Type, body []byte) uint32 {
	m.funcs = append(m.funcs, U32(m.Type(t)))
	m.bodies = append(m.bodies, vec(body))
	m.names = append(m.names, name)
	return uint32(len(m.names) - 1)
}

// Export adds a function and exports it under its name. The last one of a name
// is the one exported.
func (m *Module) Export(name string, t Type, locals []byte, code ...[]byte) uint32 {
	i := m.Func(name, t, locals, code...)
	m.byName[name] = i
	return i
}

// Drop takes an export away; its function stays.
func (m *Module) Drop(name string) *Module {
	delete(m.byName, name)
	return m
}

// ExportRaw exports what an index of a kind names.
func (m *Module) ExportRaw(name string, kind byte, index uint32) {
	m.exports = append(m.exports, append(append(Name(name), kind), U32(index)...))
}

// Global adds a mutable i64 global.
func (m *Module) Global(v int64) uint32 {
	m.globals = append(m.globals, Seq([]byte{I64, 1}, I64Const(v), Op(0x0b)))
	return uint32(len(m.globals) - 1)
}

// Data places bytes in memory.
func (m *Module) Data(at int32, b []byte) {
	m.data = append(m.data, Seq(U32(0), I32Const(at), Op(0x0b), vec(b)))
}

// Passive adds a segment for memory.init.
func (m *Module) Passive(b []byte) {
	m.data = append(m.data, Seq(U32(1), vec(b)))
}

func section(id byte, records [][]byte) []byte {
	if len(records) == 0 {
		return nil
	}
	return Section(id, Seq(U32(uint32(len(records))), Seq(records...)))
}

// Section is a section's bytes.
func Section(id byte, body []byte) []byte { return append([]byte{id}, vec(body)...) }

// Bytes is the module.
func (m *Module) Bytes() []byte {
	out := append([]byte("\x00asm\x01\x00\x00\x00"), section(1, m.types)...)
	out = append(out, section(2, m.imports)...)
	out = append(out, section(3, m.funcs)...)
	var tables [][]byte
	for _, n := range m.Sizes {
		tables = append(tables, Seq([]byte{0x70, 0}, U32(n)))
	}
	out = append(out, section(4, tables)...)
	if m.Memory != nil {
		out = append(out, Section(5, Seq([]byte{1, 1}, U32(m.Memory[0]), U32(m.Memory[1])))...)
	}
	out = append(out, section(6, m.globals)...)
	exports := m.exports
	for i, name := range m.names {
		if at, ok := m.byName[name]; ok && at == uint32(i) {
			exports = append(exports, append(append(Name(name), 0), U32(at)...))
		}
	}
	if m.Memory != nil {
		exports = append(exports, append(Name("memory"), 2, 0))
	}
	out = append(out, section(7, exports)...)
	if m.Start != nil {
		out = append(out, Section(8, U32(*m.Start))...)
	}
	out = append(out, section(9, m.elements())...)
	if len(m.data) > 0 {
		out = append(out, Section(12, U32(uint32(len(m.data))))...)
	}
	out = append(out, section(10, m.bodies)...)
	out = append(out, section(11, m.data)...)
	for _, raw := range m.Raw {
		out = append(out, raw...)
	}
	return append(out, m.nameSection()...)
}

func (m *Module) elements() (all [][]byte) {
	add := func(head []byte, functions []uint32) {
		segment := append(head, U32(uint32(len(functions)))...)
		for _, f := range functions {
			segment = append(segment, U32(f)...)
		}
		all = append(all, segment)
	}
	if len(m.Elem) > 0 {
		add(Seq(U32(0), I32Const(0), Op(0x0b)), m.Elem)
	}
	for _, functions := range m.Elements {
		add(Seq(U32(1), Op(0)), functions)
	}
	return all
}

func (m *Module) nameSection() []byte {
	body := U32(uint32(len(m.names)))
	for i, n := range m.names {
		body = append(append(body, U32(uint32(i))...), Name(n)...)
	}
	return Section(0, append(Name("name"), Section(1, body)...))
}

// Seq puts pieces of code one after the other.
func Seq(parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	out := make([]byte, 0, n)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// Times repeats a piece of code.
func Times(n int, code ...[]byte) []byte {
	one := Seq(code...)
	out := make([]byte, 0, n*len(one))
	for range n {
		out = append(out, one...)
	}
	return out
}

// Op is an instruction by its bytes.
func Op(b ...byte) []byte { return b }

// U32 is an unsigned LEB128.
func U32(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

// S64 is a signed LEB128.
func S64(v int64) []byte {
	var b []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func I32Const(v int32) []byte { return append([]byte{0x41}, S64(int64(v))...) }
func I64Const(v int64) []byte { return append([]byte{0x42}, S64(v)...) }

// F64Const is f64.const.
func F64Const(v float64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{0x44}, math.Float64bits(v))
}

func Get(local uint32) []byte     { return append([]byte{0x20}, U32(local)...) }
func Set(local uint32) []byte     { return append([]byte{0x21}, U32(local)...) }
func Tee(local uint32) []byte     { return append([]byte{0x22}, U32(local)...) }
func Call(f uint32) []byte        { return append([]byte{0x10}, U32(f)...) }
func Br(depth uint32) []byte      { return append([]byte{0x0c}, U32(depth)...) }
func BrIf(depth uint32) []byte    { return append([]byte{0x0d}, U32(depth)...) }
func GlobalGet(i uint32) []byte   { return append([]byte{0x23}, U32(i)...) }
func GlobalSet(i uint32) []byte   { return append([]byte{0x24}, U32(i)...) }
func Load64(offset uint32) []byte { return append([]byte{0x29, 3}, U32(offset)...) }

// Load32 is i32.load.
func Load32(offset uint32) []byte { return append([]byte{0x28, 2}, U32(offset)...) }

// Store64 is i64.store.
func Store64(offset uint32) []byte { return append([]byte{0x37, 3}, U32(offset)...) }

// Store32 is i32.store.
func Store32(offset uint32) []byte { return append([]byte{0x36, 2}, U32(offset)...) }

// Block, Loop and If hold code; If takes its condition from the stack.
func Block(t byte, code ...[]byte) []byte { return Seq(Op(0x02, t), Seq(code...), Op(0x0b)) }

// Loop turns only as often as its code branches to it.
func Loop(t byte, code ...[]byte) []byte { return Seq(Op(0x03, t), Seq(code...), Op(0x0b)) }

// If runs code when the top of the stack is not 0.
func If(t byte, code ...[]byte) []byte { return Seq(Op(0x04, t), Seq(code...), Op(0x0b)) }

// Forever runs code again and again.
func Forever(code ...[]byte) []byte { return Loop(Void, Seq(code...), Br(0)) }

// Count runs code n times, with an i32 local as counter.
func Count(local uint32, n int32, code ...[]byte) []byte {
	return Seq(I32Const(n), Set(local), Loop(Void, Seq(code...),
		Get(local), I32Const(1), Op(0x6b), Tee(local), BrIf(0)))
}
