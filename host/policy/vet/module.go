package vet

import (
	"bytes"
	"strings"
)

// Sections, in the order in which a module may hold them.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
)

// rank is a section's place in a module; the data count stands before the code.
var rank = [...]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secGlobal: 6,
	secExport: 7, secStart: 8, secElement: 9, secDataCount: 10, secCode: 11, secData: 12}

// Value types.
const (
	typeI32     = 0x7f
	typeI64     = 0x7e
	typeF32     = 0x7d
	typeF64     = 0x7c
	typeV128    = 0x7b
	typeFuncref = 0x70
	typeNone    = 0x40 // of a block without results
)

type funcType struct{ params, results []byte }

func (t funcType) String() string {
	var b strings.Builder
	b.WriteByte('(')
	for i, p := range t.params {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(typeName(p))
	}
	b.WriteByte(')')
	for i, p := range t.results {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(typeName(p))
	}
	return b.String()
}

func typeName(t byte) string {
	switch t {
	case typeI32:
		return "i32"
	case typeI64:
		return "i64"
	case typeF32:
		return "f32"
	case typeF64:
		return "f64"
	case typeV128:
		return "v128"
	case typeFuncref:
		return "funcref"
	default:
		return "?"
	}
}

// module is what has been read so far, and the sections as they will be written.
//
// It is large because each section of a module is read by a method of its own,
// into one set of tables that later sections name.
type module struct {
	limits     Limits
	types      []funcType
	imports    int      // imported functions
	functions  []uint32 // type index of every function, imported first
	tables     int
	places     int // of all tables
	entries    int // of element segments
	memories   int
	globals    int
	data       int               // by the data count section, or -1
	taken      []uint32          // functions that tables or references may hold
	references map[uint32]uint32 // functions that code refers to: their places among vet's globals
	names      map[uint32]string
	exports    map[string]export
	sections   [13][]byte
	code       *reader
	debug      bool   // it has debug information
	marks      []mark // where instructions came from, if so
	report     Report
	wide       bool // it has vectors
	live       liveness
	last       body // whose memory the next function takes over
	// For tests: what a charge itself costs, and to charge each instruction.
	chargePrice int
	exact       bool
	eager       bool        // the counter tells at any time what is left
	framed      func(int64) // gets what a call of each function takes of the stack
}

func newModule(l Limits) *module {
	return &module{limits: l.withDefaults(), data: -1, exports: map[string]export{}, references: map[uint32]uint32{}, chargePrice: priceCharge}
}

type export struct {
	kind  byte
	index uint32
}

// Kinds of imports and exports.
const (
	kindFunc   = 0
	kindTable  = 1
	kindMemory = 2
	kindGlobal = 3
)

// Report tells what vet saw in a module that it let through: how near it came
// to each limit, and what it holds.
type Report struct {
	ABI         int
	BytesIn     int
	BytesOut    int
	Functions   int // of its own
	Types       int
	Globals     int // without the counter
	TableSize   int
	Data        int
	Elements    int
	MemoryMin   uint32 // pages
	MemoryMax   uint32 // pages
	Imports     []string
	Exports     []string
	Charges     int // places where fuel is charged
	Recursive   int // functions that may call themselves
	BodyBytes   int // the largest function
	Locals      int
	AllLocals   int
	Nesting     int
	Blocks      int
	Flow        int // locals times blocks, over all functions
	BranchTable int
	BranchAll   int     // targets of all br_tables of one function
	Largest     int     // the dearest single charge
	HostBytes   int     // what an instance takes beside its memory, about
	Debug       bool    // it has debug information
	Origins     Origins `json:"-"` // if so
}

var header = []byte{0, 'a', 's', 'm', 1, 0, 0, 0}

// Rewrite vets a module under the limits and returns it with a fuel counter,
// charges, and the memory cap written in. The error is a *Refusal.
func Rewrite(wasm []byte, limits Limits) ([]byte, Report, error) {
	m := newModule(limits)
	if err := m.read(wasm); err != nil {
		return nil, Report{}, err
	}
	out, err := m.write()
	if err != nil {
		if err.Function != NoFunction {
			err.Name = clip(m.names[uint32(err.Function)])
		}
		return nil, Report{}, err
	}
	if m.report.Debug = len(m.marks) > 0; m.report.Debug {
		m.report.Origins = m.origins()
	}
	m.report.HostBytes = m.hostBytes()
	m.report.BytesIn, m.report.BytesOut = len(wasm), len(out)
	return out, m.report, nil
}

// hostBytes is about what wazero keeps for each instance, in Go's heap.
func (m *module) hostBytes() int {
	const place, reference, segment, global = 8, 40, 24, 88
	references := m.entries + len(m.references)
	return place*m.places + reference*references + segment*m.report.Data + global*(m.globals+len(m.references))
}

// read returns error, not *Refusal, lest a nil one become a non-nil error.
func (m *module) read(wasm []byte) error {
	if len(wasm) > m.limits.Bytes {
		return tooMany("the module's bytes", uint64(len(wasm)), m.limits.Bytes, "build without debug information (-no-debug, or -ldflags=-s)")
	}
	if !bytes.HasPrefix(wasm, header) {
		return refuse(RuleFormat, "upload a WebAssembly 1.0 core module (.wasm), not text and not a component", "it does not start as a module")
	}
	r := &reader{b: wasm, pos: len(header)}
	last := 0
	for r.more() {
		id := r.byte()
		body := r.sub(int(r.u32()))
		if r.err != nil {
			break
		}
		if id == secCustom {
			m.custom(body)
			continue
		}
		if int(id) >= len(rank) {
			return at(refuse(RuleFeature, "turn the feature off in the compiler", "it has a section of kind %d", id), body.base)
		}
		if rank[id] <= last {
			return at(refuse(RuleFormat, adviceRebuild, "section %d comes twice or out of order", id), body.base)
		}
		last = rank[id]
		if err := m.section(id, body); err != nil {
			return at(err, body.base+body.pos)
		}
		if body.err == nil && body.left() > 0 && id != secCode {
			body.fail("a section holds more than it says")
		}
		if body.err != nil {
			return body.err
		}
	}
	if r.err != nil {
		return r.err
	}
	if err := m.complete(); err != nil {
		return err
	}
	return nil
}

func at(r *Refusal, offset int) *Refusal {
	if r.Offset == 0 {
		r.Offset = offset
	}
	return r
}

func (m *module) section(id byte, r *reader) *Refusal {
	switch id {
	case secType:
		return m.typeSection(r)
	case secImport:
		return m.importSection(r)
	case secFunction:
		return m.functionSection(r)
	case secTable:
		return m.tableSection(r)
	case secMemory:
		return m.memorySection(r)
	case secGlobal:
		return m.globalSection(r)
	case secExport:
		return m.exportSection(r)
	case secStart:
		return refuse(RuleStart, "build a reactor (-buildmode=c-shared) and initialise in _initialize, which the host calls under a budget", "it has a start function, which would run before the host can bound it")
	case secElement:
		return m.elementSection(r)
	case secDataCount:
		return m.dataCountSection(r)
	case secCode:
		m.code = r
		return nil
	default:
		return m.dataSection(r)
	}
}

// complete checks what only the whole module shows.
func (m *module) complete() *Refusal {
	if err := m.checkABI(); err != nil {
		return err
	}
	if m.memories != 1 {
		return refuse(RuleMemory, "a policy has one memory and exports it as \"memory\"", "it has no memory of its own")
	}
	if m.code == nil {
		return refuse(RuleFormat, adviceRebuild, "it has no code")
	}
	return m.checkExports()
}

func (m *module) checkABI() *Refusal {
	if _, ok := m.exports[marker]; ok {
		m.report.ABI = 1
		return nil
	}
	for name := range m.exports {
		if strings.HasPrefix(name, markerPrefix) {
			return refuse(RuleABI, "build it with the SDK of this release, or run a host that speaks that ABI", "it asks for another ABI: %s, while this host speaks %s", clip(name), marker)
		}
	}
	return refuse(RuleABI, "a policy's main package imports the SDK, which exports the marker; in another language export a function of that name", "it does not say which ABI it follows: it lacks the export %s", marker)
}

func (m *module) checkExports() *Refusal {
	if e, ok := m.exports["memory"]; !ok || e.kind != kindMemory {
		return refuse(RuleExport, "export the memory under that name", "it exports no memory called \"memory\"")
	}
	if _, ok := m.exports["_start"]; ok {
		return refuse(RuleExport, "build a reactor: tinygo or go build with -buildmode=c-shared", "it exports _start: it is a command, which ends when its main function does")
	}
	for _, name := range required {
		if _, ok := m.exports[name]; !ok {
			return refuse(RuleExport, "build it with the SDK, which exports it; or export it as abi/SPEC.md says", "it lacks the export %s", name)
		}
	}
	for name, want := range exportTypes {
		e, ok := m.exports[name]
		if !ok {
			continue
		}
		if e.kind != kindFunc {
			return refuse(RuleExport, "export a function under that name", "its export %s is no function", name)
		}
		have := m.types[m.functions[e.index]].String()
		if have == want {
			continue
		}
		err := refuse(RuleExport, "give it the type of abi/SPEC.md", "its export %s is %s and must be %s", name, clip(have), want)
		err.Function = int(e.index)
		return err
	}
	return nil
}
