package vet

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// rich is a policy with something of each kind, whose own functions vet moves by
// one: it imports function 0.
func rich() *Module {
	m := Policy(Import{From: ModuleBerth, Name: "log", Type: Sig([]byte{I32, I32, I32})})
	m.Sizes, m.Elem = []uint32{1, 1, 1}, []uint32{1}
	m.Global(1)
	m.Global(2)
	m.Global(3)
	m.Passive([]byte("one"))
	m.Passive([]byte("two"))
	return m
}

// sectionsByKind takes a module apart, but for its custom sections.
func sectionsByKind(wasm []byte) map[byte][]byte {
	all := map[byte][]byte{}
	for b := wasm[8:]; len(b) > 0; {
		size, n := binary.Uvarint(b[1:])
		if b[0] != secCustom {
			all[b[0]] = b[1+n : 1+n+int(size)]
		}
		b = b[1+n+int(size):]
	}
	return all
}

// inOrder is the order of a module's sections.
var inOrder = []byte{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secStart, secElement, secDataCount, secCode, secData}

// with is the rich module with another section of a kind.
func with(kind byte, body []byte) []byte {
	all := sectionsByKind(rich().Bytes())
	all[kind] = body
	out := slices.Clone(header)
	for _, k := range inOrder {
		if all[k] != nil {
			out = append(out, Section(k, all[k])...)
		}
	}
	return out
}

// numbers are the opcodes from one to another.
func numbers(from, to int) (all []byte) {
	for op := from; op <= to; op++ {
		all = append(all, byte(op))
	}
	return all
}

// vectors are all vector instructions with their immediates, of which none would
// pass for an instruction.
func vectors() (all []byte) {
	const lane = 6
	for sub := range uint32(256) {
		all = append(append(all, 0xfd), U32(sub)...)
		memory := Seq(U32(sub%5), U32(1<<20+sub))
		switch {
		case sub <= 11 || sub == 92 || sub == 93:
			all = append(all, memory...)
		case sub == 12 || sub == 13:
			all = append(all, bytes.Repeat([]byte{byte(sub), 0x0b}, 8)...)
		case sub >= 21 && sub <= 34:
			all = append(all, lane)
		case sub >= 84 && sub <= 91:
			all = append(append(all, memory...), lane)
		}
	}
	return all
}

// TestEachInstructionIsCopied holds that an instruction comes out with the
// immediates that it went in with, in their shortest form, and those that stand
// one after the other as they stood.
func TestEachInstructionIsCopied(t *testing.T) {
	t.Parallel()
	var memory []byte
	for op := 0x28; op <= 0x3e; op++ {
		memory = append(append(memory, byte(op), byte(op%5)), U32(uint32(1<<27+op))...)
	}
	type copied struct{ in, out []byte }
	same := func(code ...byte) copied { return copied{code, code} }
	for name, c := range map[string]copied{
		"numbers":              same(numbers(0x45, 0xc4)...),
		"loads and stores":     same(memory...),
		"constants":            same(Seq(I32Const(-1<<31), I64Const(-1<<63), I64Const(1<<63-1), Op(0x43, 1, 2, 3, 4), Op(0x44, 1, 2, 3, 4, 5, 6, 7, 8))...),
		"constants in excess":  {Op(0x41, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x41, 0x80, 0x00, 0x42, 0xc0, 0x80, 0x00), Seq(I32Const(-1), I32Const(0), I64Const(64))},
		"offsets in excess":    {Op(0x28, 0x82, 0x00, 0x85, 0x80, 0x80, 0x80, 0x00), Op(0x28, 2, 5)},
		"locals and globals":   same(0x20, 1, 0x21, 2, 0x22, 3, 0x23, 1, 0x24, 2),
		"selects and drops":    same(0x1a, 0x1b, 0x1c, 1, I64, 0x1c, 1, 0x70, 0x1c, 1, 0x7b),
		"references":           same(0xd0, 0x70, 0xd1),
		"ones to functions":    {Op(0xd2, 3, 0xd2, 0, 0xd2, 3), Op(0x23, 5, 0x23, 6, 0x23, 5)}, // behind vet's own two globals
		"a call of an import":  {Op(0x10, 0), Op(0x10, 0)},
		"a call of a function": {Op(0x10, 3), Op(0x10, 4)},
		"a call by a table":    same(0x11, 2, 1),
		"tables":               same(0x25, 1, 0x26, 2),
		"the memory's size":    same(0x3f, 0),
		"its growth":           same(0x40, 0),
		"conversions":          same(0xfc, 0, 0xfc, 1, 0xfc, 2, 0xfc, 3, 0xfc, 4, 0xfc, 5, 0xfc, 6, 0xfc, 7),
		"memory.init":          same(0xfc, 8, 2, 0),
		"data.drop":            same(0xfc, 9, 2),
		"memory.copy":          same(0xfc, 10, 0, 0),
		"memory.fill":          same(0xfc, 11, 0),
		"table.init":           same(0xfc, 12, 0, 2),
		"elem.drop":            same(0xfc, 13, 0),
		"table.copy":           same(0xfc, 14, 2, 1),
		"table.size":           same(0xfc, 16, 2),
		"table.fill":           same(0xfc, 17, 2),
		"vectors":              same(vectors()...),
		"labels":               same(0x02, Void, 0x02, I64, 0x02, 1, 0x0c, 1, 0x0d, 2, 0x0e, 3, 0, 1, 2, 3, 0x0b, 0x0b, 0x0b),
		"an if and its else":   same(0x04, 0x7b, 0x01, 0x05, 0x01, 0x0b),
		"a return":             {Op(0x02, Void, 0x0f, 0x0b), Op(0x02, Void, 0x0c, 1, 0x0b)},
	} {
		m := rich()
		m.Func("f", Sig(nil), []byte{I32, I64, F64, I32}, Op(0x00), c.in)
		out, _, err := Rewrite(m.Bytes(), Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if code := sectionsByKind(out)[secCode]; !bytes.Contains(code, c.out) {
			t.Errorf("%s: %x becomes something else than %x:\n%x", name, c.in, c.out, code)
		}
	}
}

// TestAnythingElseIsNoInstruction holds that an opcode which vet does not know,
// and one that is cut, are refused.
func TestAnythingElseIsNoInstruction(t *testing.T) {
	t.Parallel()
	known := append(numbers(0x45, 0xc4), 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x1a, 0x1b, 0x1c, 0xd0, 0xd1, 0xd2, 0xfc, 0xfd)
	known = append(append(known, numbers(0x20, 0x26)...), numbers(0x28, 0x44)...)
	for op := range 256 {
		if slices.Contains(known, byte(op)) {
			continue
		}
		m := rich()
		m.Func("f", Sig(nil), nil, Op(0x00, byte(op)), numbers(0, 0)) // 0: unreachable, or an immediate
		if err := refusalOf(t, m.Bytes(), Limits{}); err.Rule != RuleFeature || !strings.Contains(err.What, "instruction 0x") {
			t.Errorf("opcode %#x: %v", op, err)
		}
	}
	for _, code := range [][]byte{
		{0x41}, {0x41, 0x80}, {0x42, 0xff}, {0x43, 0, 0, 0}, {0x44, 0, 0, 0, 0, 0, 0, 0}, {0x02}, {0x0c}, {0x0e, 1, 0}, {0x10}, {0x11, 0},
		{0x1c}, {0x1c, 1}, {0x20}, {0x25}, {0x28}, {0x28, 0}, {0x3f}, {0xd0}, {0xfc}, {0xfc, 8}, {0xfc, 8, 0}, {0xfc, 14, 0}, {0xfd}, {0xfd, 0}, {0xfd, 12, 0}, {0xfd, 21}, {0xfd, 84, 0, 0},
	} {
		m := rich()
		m.FuncRaw("f", Sig(nil), Seq(U32(0), code))
		if err := refusalOf(t, m.Bytes(), Limits{}); err.Rule != RuleFormat {
			t.Errorf("%x, cut: %v", code, err)
		}
	}
}

func refusalOf(t *testing.T, wasm []byte, limits Limits) *Refusal {
	t.Helper()
	_, _, err := Rewrite(wasm, limits)
	r, ok := err.(*Refusal)
	if !ok {
		t.Fatalf("Rewrite = %v, want a refusal", err)
	}
	return r
}

// TestEachSectionIsCopied holds the same of what stands outside of functions:
// own functions are moved by one, and nothing else is changed but by vet.
func TestEachSectionIsCopied(t *testing.T) {
	t.Parallel()
	zero := Seq(I32Const(0), Op(0x0b))
	ref := func(f byte) []byte { return Op(0xd2, f, 0x0b) }
	null := Op(0xd0, 0x70, 0x0b)
	// Each segment names import 0 and function 1.
	elements := func(own byte) []byte {
		return Seq(U32(8),
			U32(0), zero, U32(2), Op(0, own),
			U32(1), Op(0), U32(2), Op(0, own),
			U32(2), U32(2), zero, Op(0), U32(2), Op(0, own),
			U32(3), Op(0), U32(2), Op(0, own),
			U32(4), zero, U32(3), ref(0), ref(own), null,
			U32(5), Op(0x70), U32(3), ref(0), ref(own), null,
			U32(6), U32(2), zero, Op(0x70), U32(3), ref(0), ref(own), null,
			U32(7), Op(0x70), U32(3), ref(0), ref(own), null)
	}
	globals := func(n uint32, own byte) []byte {
		return Seq(U32(n),
			Op(I32, 0, 0x41, 0x7f, 0x0b), Op(I64, 1, 0x42, 0x80, 0x7f, 0x0b), Op(F32, 0, 0x43, 1, 2, 3, 4, 0x0b),
			Op(F64, 1, 0x44, 1, 2, 3, 4, 5, 6, 7, 8, 0x0b), Op(0x70, 1), null, Op(0x70, 0), ref(own), Op(I32, 0, 0x23, 0, 0x0b),
			Op(0x7b, 0, 0xfd, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0x0b))
	}
	data := func(first ...byte) []byte {
		return Seq(U32(3), first, zero, U32(2), Op(7, 8), U32(1), U32(1), Op(9), U32(0), zero, U32(0))
	}
	for name, c := range map[string]struct {
		kind    byte
		in, out []byte
	}{
		"element segments":           {secElement, elements(1), elements(2)},
		"globals":                    {secGlobal, globals(8, 1), globals(10, 2)},
		"data segments":              {secData, data(0), data(0)},
		"data of memory 0, by index": {secData, data(2, 0), data(0)},
		"tables":                     {secTable, Op(3, 0x70, 0, 1, 0x70, 1, 2, 9, 0x70, 1, 3, 3), Op(3, 0x70, 1, 1, 1, 0x70, 1, 2, 2, 0x70, 1, 3, 3)},
		"a memory without a bound":   {secMemory, Seq(Op(1, 0), U32(2)), Seq(Op(1, 1), U32(2), U32(1024))},
		"a memory of a lower bound":  {secMemory, Seq(Op(1, 1), U32(2), U32(1023)), Seq(Op(1, 1), U32(2), U32(1023))},
		"a memory of a higher one":   {secMemory, Seq(Op(1, 1), U32(2), U32(1025)), Seq(Op(1, 1), U32(2), U32(1024))},
		"a memory of just its bound": {secMemory, Seq(Op(1, 1), U32(1024), U32(1024)), Seq(Op(1, 1), U32(1024), U32(1024))},
	} {
		out, report, err := Rewrite(with(c.kind, c.in), Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := sectionsByKind(out)[c.kind]; !bytes.HasPrefix(got, c.out) || c.kind != secGlobal && len(got) != len(c.out) {
			t.Errorf("%s: %x becomes %x, want %x", name, c.in, got, c.out)
		}
		if c.kind == secTable && report.TableSize != 3 {
			t.Errorf("%s: the largest is said to have %d entries, want 3", name, report.TableSize)
		}
	}
}

// TestEachSectionIsChecked holds that what a section says is believed nowhere.
func TestEachSectionIsChecked(t *testing.T) {
	t.Parallel()
	zero := Seq(I32Const(0), Op(0x0b))
	global := func(constant ...byte) []byte { return append([]byte{1, I32, 0}, constant...) }
	log := Seq(Name(ModuleBerth), Name("log"))
	marked := Seq(Name(marker), Op(0, 1))
	for name, c := range map[string]struct {
		kind byte
		body []byte
		rule Rule
		says string
	}{
		"a type of another form":           {secType, Op(1, 0x5f, 0, 0), RuleFeature, "form 0x5f"},
		"a type of foreign references":     {secType, Op(1, 0x60, 1, 0x6f, 0), RuleFeature, "value type 0x6f"},
		"more types than it holds":         {secType, Op(9, 0x60, 0, 0), RuleFormat, "announces more function types"},
		"an import of no type":             {secImport, Seq(Op(1), log, Op(0, 99)), RuleFormat, "names a type"},
		"an import of another type":        {secImport, Seq(Op(1), log, Op(0, 1)), RuleImport, "berth.log as "},
		"an import that nobody offers":     {secImport, Seq(Op(1), Name(ModuleBerth), Name("spy"), Op(0, 0)), RuleImport, `it imports "spy" from "berth"`},
		"an import of a global":            {secImport, Seq(Op(1), log, Op(3, I64, 1)), RuleImport, "no function"},
		"an import whose name is not text": {secImport, Seq(Op(1), Name(ModuleBerth), Name("l\xffg"), Op(0, 0)), RuleFormat, "not UTF-8"},
		"a function of no type":            {secFunction, Op(1, 99), RuleFormat, "names a type"},
		"a table of foreign references":    {secTable, Op(1, 0x6f, 0, 1), RuleFeature, "table of type 0x6f"},
		"a table that is shared":           {secTable, Op(1, 0x70, 3, 1, 1), RuleFeature, "shared or 64-bit"},
		"a table that ends before it is":   {secTable, Op(1, 0x70, 1, 2, 1), RuleFormat, "a table's least size"},
		"two memories":                     {secMemory, Op(2, 0, 1, 0, 1), RuleSize, "memories"},
		"a shared memory":                  {secMemory, Op(1, 3, 1, 1), RuleFeature, "shared or 64-bit"},
		"a 64-bit memory":                  {secMemory, Op(1, 4, 1), RuleFeature, "shared or 64-bit"},
		"a memory that ends before it is":  {secMemory, Op(1, 1, 2, 1), RuleFormat, "the memory's least size"},
		"a global of foreign references":   {secGlobal, Op(1, 0x6f, 0, 0xd0, 0x6f, 0x0b), RuleFeature, "value type 0x6f"},
		"a global that is neither":         {secGlobal, Op(1, I32, 2, 0x41, 0, 0x0b), RuleFormat, "neither fixed nor mutable"},
		"a constant of two instructions":   {secGlobal, global(0x41, 0, 0x41, 0, 0x0b), RuleFormat, "more than one instruction"},
		"a constant that reckons":          {secGlobal, global(0x6a, 0x0b), RuleFormat, "a constant uses an instruction"},
		"a constant of another vector":     {secGlobal, global(append([]byte{0xfd, 13}, make([]byte, 17)...)...), RuleFormat, "a constant uses an instruction"},
		"a constant of itself":             {secGlobal, global(0x23, 0, 0x0b), RuleFormat, "does not stand before it"},
		"a constant of no function":        {secGlobal, Op(1, 0x70, 0, 0xd2, 99, 0x0b), RuleFormat, "names a function"},
		"a null of foreign references":     {secGlobal, Op(1, 0x70, 0, 0xd0, 0x6f, 0x0b), RuleFormat, "null reference"},
		"an export of no kind":             {secExport, Seq(Op(1), Name("x"), Op(4, 0)), RuleReserved, "does not have"},
		"an export of no function":         {secExport, Seq(Op(1), Name("x"), Op(0, 7)), RuleReserved, "does not have"},
		"an export of no table":            {secExport, Seq(Op(1), Name("x"), Op(1, 3)), RuleReserved, "does not have"},
		"an export of no memory":           {secExport, Seq(Op(1), Name("x"), Op(2, 1)), RuleReserved, "does not have"},
		"an export of no global":           {secExport, Seq(Op(1), Name("x"), Op(3, 3)), RuleReserved, "does not have"},
		"a name exported twice":            {secExport, Seq(Op(2), Name("x"), Op(0, 1), Name("x"), Op(0, 2)), RuleFormat, `exports "x" twice`},
		"an export whose name is not text": {secExport, Seq(Op(1), Name("\xff"), Op(0, 1)), RuleFormat, "not UTF-8"},
		"a reserved name, and no more":     {secExport, Seq(Op(1), Name("berth:"), Op(0, 1)), RuleExport, "keeps for itself"},
		"no memory exported":               {secExport, Seq(Op(1), marked), RuleExport, `no memory called "memory"`},
		"a function exported as memory":    {secExport, Seq(Op(2), marked, Name("memory"), Op(0, 1)), RuleExport, `no memory called "memory"`},
		"a global exported as an open": {secExport, Seq(Op(5), marked, Name("memory"), Op(2, 0), Name("berth_manifest"), Op(0, 2), Name("berth_input"), Op(0, 3), Name("berth_open"), Op(3, 0)),
			RuleExport, "berth_open is no function"},
		"a segment of elements of no kind":   {secElement, Op(1, 8, 0x70, 0), RuleFormat, "unknown kind"},
		"elements of no table":               {secElement, Seq(Op(1, 2, 3), zero, Op(0, 0)), RuleFormat, "names a table"},
		"elements that are no functions":     {secElement, Op(1, 1, 1, 0), RuleFormat, "something else than functions"},
		"elements of foreign references":     {secElement, Op(1, 5, 0x6f, 0), RuleFormat, "something else than functions"},
		"elements of no function":            {secElement, Op(1, 1, 0, 1, 7), RuleFormat, "names a function"},
		"more elements than it holds":        {secElement, Op(1, 1, 0, 9, 1), RuleFormat, "announces more entries"},
		"more data announced":                {secDataCount, Op(4), RuleFormat, "another number of data segments"},
		"less data announced":                {secDataCount, Op(2), RuleFormat, "names a segment"}, // which function uses
		"a segment of data of no kind":       {secData, Op(3, 3, 0, 1, 0, 1, 0), RuleFormat, "unknown kind"},
		"data of another memory":             {secData, Seq(Op(3, 2, 1), zero, Op(0, 1, 0, 1, 0)), RuleFormat, "names a memory"},
		"more data than it holds":            {secData, Op(3, 1, 0, 1, 0, 1, 9), RuleFormat, "runs past the end"},
		"fewer functions than types of them": {secCode, Op(1, 2, 0, 0x0b), RuleFormat, "another number of bodies"},
	} {
		wasm := with(c.kind, c.body)
		if name == "less data announced" {
			m := rich()
			m.Func("f", Sig(nil), nil, Op(0x00, 0xfc, 9, 3))
			wasm = m.Bytes()
		}
		if err := refusalOf(t, wasm, Limits{}); err.Rule != c.rule || !strings.Contains(err.What, c.says) {
			t.Errorf("%s: %s: %v, want %s: …%s…", name, err.Rule, err, c.rule, c.says)
		}
	}
	for kind, body := range sectionsByKind(rich().Bytes()) {
		if err := refusalOf(t, with(kind, append(slices.Clone(body), 0)), Limits{}); err.Rule != RuleFormat || !strings.Contains(err.What, "holds more than it says") {
			t.Errorf("section %d with a byte more: %v", kind, err)
		}
		twice := append(with(kind, body), Section(kind, body)...)
		if err := refusalOf(t, twice, Limits{}); err.Rule != RuleFormat || !strings.Contains(err.What, "twice or out of order") {
			t.Errorf("section %d twice: %v", kind, err)
		}
		if slices.Contains([]byte{secImport, secTable, secGlobal, secElement}, kind) {
			continue // which others name
		}
		_, _, err := Rewrite(with(kind, nil), Limits{})
		if optional := kind == secDataCount || kind == secData; optional != (err == nil) {
			t.Errorf("a module without section %d: %v", kind, err)
		}
	}
	if err := refusalOf(t, append(rich().Bytes(), Section(13, nil)...), Limits{}); err.Rule != RuleFeature {
		t.Errorf("a section of an unknown kind: %v", err)
	}
}

// TestEachBodyIsChecked holds that a function names only what the module has,
// and ends where it says.
func TestEachBodyIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code []byte // behind no locals
		rule Rule
		says string
	}{
		"a call of no function":          {Op(0x10, 8, 0x0b), RuleFormat, "names a function"},
		"a reference to no function":     {Op(0xd2, 8, 0x0b), RuleFormat, "names a function"},
		"a call by no table":             {Op(0x11, 0, 3, 0x0b), RuleFormat, "names a table"},
		"a call of no type":              {Op(0x11, 9, 0, 0x0b), RuleFormat, "names a type"},
		"a block of no type":             {Op(0x02, 9, 0x0b, 0x0b), RuleFormat, "a block names a type"},
		"a block of a negative type":     {Op(0x02, 0xbf, 0x7f, 0x0b, 0x0b), RuleFormat, "a block has no type"},
		"a block of foreign references":  {Op(0x02, 0x6f, 0x0b, 0x0b), RuleFeature, "a block of type 0x6f"},
		"a local in excess":              {Op(0x20, 0, 0x0b), RuleReserved, "local 0 of 0"},
		"a global in excess":             {Op(0x23, 3, 0x0b), RuleReserved, "global 3 of 3"},
		"a branch out of the function":   {Op(0x0c, 1, 0x0b), RuleFormat, "leaves its function"},
		"a branch of a table out of it":  {Op(0x0e, 1, 0, 1, 0x0b), RuleFormat, "leaves its function"},
		"more targets than code":         {Op(0x0e, 9, 0, 0x0b), RuleFormat, "announces more targets"},
		"a table in excess":              {Op(0x25, 3, 0x0b), RuleFormat, "names a table"},
		"a fill of no table":             {Op(0xfc, 17, 3, 0x0b), RuleFormat, "names a table"},
		"a copy from no table":           {Op(0xfc, 14, 0, 3, 0x0b), RuleFormat, "names a table"},
		"a copy to no table":             {Op(0xfc, 14, 3, 0, 0x0b), RuleFormat, "names a table"},
		"an init of no table":            {Op(0xfc, 12, 0, 3, 0x0b), RuleFormat, "names a table"},
		"an init of no elements":         {Op(0xfc, 12, 1, 0, 0x0b), RuleFormat, "names a segment"},
		"a drop of no elements":          {Op(0xfc, 13, 1, 0x0b), RuleFormat, "names a segment"},
		"an init of no data":             {Op(0xfc, 8, 3, 0, 0x0b), RuleFormat, "names a segment"},
		"a drop of no data":              {Op(0xfc, 9, 3, 0x0b), RuleFormat, "names a segment"},
		"an init of another memory":      {Op(0xfc, 8, 0, 1, 0x0b), RuleFeature, "memory 1"},
		"a fill of another memory":       {Op(0xfc, 11, 1, 0x0b), RuleFeature, "memory 1"},
		"a copy from another memory":     {Op(0xfc, 10, 0, 1, 0x0b), RuleFeature, "memory 1"},
		"a copy to another memory":       {Op(0xfc, 10, 1, 0, 0x0b), RuleFeature, "memory 1"},
		"the size of another memory":     {Op(0x3f, 1, 0x0b), RuleFeature, "memory 1"},
		"growth of another memory":       {Op(0x40, 1, 0x0b), RuleFeature, "memory 1"},
		"growth of a table":              {Op(0xfc, 15, 0, 0x0b), RuleTable, "grows a table"},
		"a bulk operation of no kind":    {Op(0xfc, 18, 0x0b), RuleFeature, "instruction 0xfc 18"},
		"a load of too high alignment":   {Op(0x28, 5, 0, 0x0b), RuleFormat, "no such alignment"},
		"a select of no type":            {Op(0x1c, 0, 0x0b), RuleFormat, "not one type"},
		"a select of two types":          {Op(0x1c, 2, I32, I32, 0x0b), RuleFormat, "not one type"},
		"a select of foreign references": {Op(0x1c, 1, 0x6f, 0x0b), RuleFeature, "value type 0x6f"},
		"a null of foreign references":   {Op(0xd0, 0x6f, 0x0b), RuleFeature, "null reference of type 0x6f"},
		"an else of no if":               {Op(0x02, Void, 0x05, 0x0b, 0x0b), RuleFormat, "outside of an if"},
		"a second else":                  {Op(0x41, 0, 0x04, Void, 0x05, 0x05, 0x0b, 0x0b), RuleFormat, "outside of an if"},
		"an else of the function":        {Op(0x05, 0x0b), RuleFormat, "outside of an if"},
		"no end":                         {Op(0x02, Void, 0x0b), RuleFormat, "has no end"},
		"code after the end":             {Op(0x0b, 0x0b), RuleFormat, "goes on after its end"},
		"a constant of 33 bits":          {Op(0x41, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x0b), RuleFormat, "too large"},
		"a constant of too many bytes":   {Op(0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x0b), RuleFormat, "too large"},
		"a constant of 65 bits":          {Op(0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x0b), RuleFormat, "too large"},
		"an offset of 33 bits":           {Op(0x28, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 0x0b), RuleFormat, "too large"},
		"an offset of too many bytes":    {Op(0x28, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x0b), RuleFormat, "too large"},
	} {
		m := rich()
		code := Seq(Op(0x01, 0x01, 0x01, 0x01), c.code)
		f := m.FuncRaw("f", Sig(nil), append(U32(0), code...))
		wasm := m.Bytes()
		err := refusalOf(t, wasm, Limits{})
		if at := bytes.LastIndex(wasm, code); err.Offset <= at || err.Offset > at+len(code) {
			t.Errorf("%s: it is said to stand at %d, and does between %d and %d", name, err.Offset, at, at+len(code))
		}
		if err.Rule != c.rule || !strings.Contains(err.What, c.says) {
			t.Errorf("%s: %s: %v, want %s: …%s…", name, err.Rule, err, c.rule, c.says)
		}
		if err.Function != int(f) || err.Name != "f" && err.Rule == RuleTable {
			t.Errorf("%s: function %d %q is at fault, want %d", name, err.Function, err.Name, f)
		}
	}
}

// TestNothingOfVetsOwnCanBeNamed holds that code names no index beyond the module's
// own, however far: behind its globals stand the counter, what is left of the stack,
// and references; behind its locals those in which vet reckons.
func TestNothingOfVetsOwnCanBeNamed(t *testing.T) {
	t.Parallel()
	for _, n := range []uint32{3, 4, 5, 6, 7, 1000, 1<<32 - 1} {
		for what, code := range map[string][]byte{
			"reads a global":    Seq(Op(0x23), U32(n)),
			"sets a global":     Seq(Op(0x24), U32(n)),
			"reads a local":     Seq(Op(0x20), U32(n)),
			"sets a local":      Seq(Op(0x21), U32(n)),
			"tees a local":      Seq(Op(0x22), U32(n)),
			"reads a table":     Seq(Op(0x25), U32(n)),
			"sets a table":      Seq(Op(0x26), U32(n)),
			"calls":             Call(n + 100),
			"makes a reference": Seq(Op(0xd2), U32(n+100)),
		} {
			m := rich()
			m.Func("f", nothing, []byte{I32, I32, I32}, Op(0xd2, 0, 0x1a), I32Const(0), I32Const(0), I32Const(0), Op(0xfc, 11, 0), code)
			if _, _, err := Rewrite(m.Bytes(), Limits{}); err == nil && n+100 > n {
				t.Errorf("code that %s beyond its own, %d, is let through", what, n)
			}
		}
		for kind := range byte(4) {
			m := rich()
			m.ExportRaw("mine", kind, n+10)
			if _, _, err := Rewrite(m.Bytes(), Limits{}); err == nil && n+10 > n {
				t.Errorf("an export of kind %d of what is not its own, %d, is let through", kind, n)
			}
		}
	}
}
