package vet

import (
	"reflect"
	"testing"

	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// TestEachLimitIsExact holds that a module which comes up to a limit passes, and
// is refused by one less; and that the report says how far it came.
func TestEachLimitIsExact(t *testing.T) {
	t.Parallel()
	const (
		params, locals    = 2, 6
		deep, targets     = 10, 5
		blocks            = deep + deep // the branches
		flow              = (params + locals + fewLocals) * blocks
		imports, tables   = 1, 3
		functions, bodies = 6 + 3, 3 // those of every policy
		entries           = 9
	)
	m := rich()
	m.Sizes = []uint32{1, entries, 1}
	m.Elem = []uint32{1, 1, 1}
	code := Seq(Times(deep, Op(0x02, Void)), Times(deep, Get(0), BrIf(3)), Times(deep, Op(0x0b)))
	for range 2 {
		m.Func("wide", Sig([]byte{I32, I64}), []byte{I32, I32, I64, I64, F64, F32}, code)
	}
	table := Seq(Get(0), Op(0x0e, targets, 0, 0, 0, 0, 0, 0))
	m.Func("branches", Sig([]byte{I32, I32, I32, I32, I32}, I64, I64, I64), nil, table, Get(0), Op(0x0e, 1, 0, 0))
	wasm := m.Bytes()
	sections := sectionsByKind(wasm)
	_, report, err := Rewrite(wasm, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	body := 1 + 2*locals + len(code) + 1
	for _, c := range []struct {
		field string
		need  int64
		told  int // by the report, where that tells it
	}{
		{"Bytes", int64(len(wasm)), report.BytesIn},
		{"Types", int64(sections[secType][0]), report.Types},
		{"Params", 5, 5},
		{"Results", 3, 3},
		{"Imports", imports, len(report.Imports)},
		{"Functions", functions, report.Functions},
		{"BodyBytes", int64(body), report.BodyBytes},
		{"Locals", params + locals, report.Locals},
		{"AllLocals", 2*(params+locals) + 5 + 4, report.AllLocals},
		{"Nesting", deep, report.Nesting},
		{"Blocks", blocks, report.Blocks},
		{"BodyFlow", flow, flow},
		{"Flow", 2 * flow, report.Flow},
		{"BranchTable", targets, report.BranchTable},
		{"BranchTables", targets + 1 + 2, report.BranchAll},
		{"Tables", tables, tables},
		{"TableEntries", entries, report.TableSize},
		{"Globals", 3, report.Globals},
		{"Exports", int64(sections[secExport][0]), len(report.Exports)},
		{"Elements", 1, 1},
		{"Data", 3, report.Data},
		{"MemoryBytes", PageBytes, int(report.MemoryMin) * PageBytes},
	} {
		if int64(c.told) != c.need {
			t.Errorf("%s: the report says %d, want %d", c.field, c.told, c.need)
		}
		if _, _, err := Rewrite(wasm, only(c.field, c.need)); err != nil {
			t.Errorf("%s: a limit of %d refuses it: %v", c.field, c.need, err)
		}
		if c.need == 1 || c.field == "MemoryBytes" {
			continue // none is the default, and a page is the least
		}
		r := refusalOf(t, wasm, only(c.field, c.need-1))
		if r.Rule != RuleSize || r.Got != c.need || r.Limit != c.need-1 {
			t.Errorf("%s: a limit of %d: %s: %v", c.field, c.need-1, r.Rule, r)
		}
	}
	m.Elem = bytesOf(1, entries+1)
	if r := refusalOf(t, m.Bytes(), only("TableEntries", entries)); r.Got != entries+1 {
		t.Errorf("a segment of more entries than a table may have: %v", r)
	}
	m = rich()
	m.Func("f", nothing, nil, Op(0xd2, 1, 0xd2, 2, 0xd2, 3, 0xd2, 4, 0xd2, 3))
	if r := refusalOf(t, m.Bytes(), only("Globals", 3)); r.Rule != RuleSize || r.Got != 4 {
		t.Errorf("references to more functions than there may be globals: %v", r)
	}
	if _, _, err := Rewrite(m.Bytes(), only("Globals", 4)); err != nil {
		t.Errorf("references to as many functions as there may be globals: %v", err)
	}
	m.Elem, m.Memory = nil, &[2]uint32{3, 9}
	_, report, err = Rewrite(m.Bytes(), Limits{MemoryBytes: 4*PageBytes - 1})
	if err != nil || report.MemoryMin != 3 || report.MemoryMax != 3 {
		t.Errorf("a memory of 3 pages under a cap just below 4: %v, %+v", err, report)
	}
	if r := refusalOf(t, m.Bytes(), Limits{MemoryBytes: 3*PageBytes - 1}); r.Rule != RuleMemory {
		t.Errorf("a memory of 3 pages under a cap below that: %v", r)
	}
}

// only is the default limits but for one of them.
func only(field string, most int64) (l Limits) {
	reflect.ValueOf(&l).Elem().FieldByName(field).SetInt(most)
	return l
}

func bytesOf(f uint32, n int) (all []uint32) {
	for range n {
		all = append(all, f)
	}
	return all
}

// TestTheMetersBlocksCount holds that what vet itself puts in counts, since the
// compiler takes time for it too.
func TestTheMetersBlocksCount(t *testing.T) {
	t.Parallel()
	const entry, loop, turn, around, branch, late, bulk, look = 1, 1, 1, extra, 1, 2, bulkBlocks, 2
	spin := Loop(Void, Get(0), BrIf(0))
	fill := Seq(Times(3, Get(0)), Op(0xfc, 11, 0))
	for name, c := range map[string]struct {
		code []byte
		want int
	}{
		"a loop":                         {spin, entry + loop + turn + around + branch},
		"a loop within a loop":           {Loop(Void, spin, Get(0), BrIf(0)), entry + 2*(loop+turn+around+branch)},
		"a loop that calls":              {Loop(Void, Call(1), Get(0), BrIf(0)), entry + loop + turn + branch},
		"one that has a call in another": {Loop(Void, Loop(Void, Call(1), Get(0), BrIf(0))), entry + 2*(loop+turn) + branch},
		"a loop that takes values":       {Seq(Get(0), Op(0x03, 3), Op(0x0b, 0x1a)), entry + loop + turn},
		"a bulk operation":               {fill, entry + bulk},
		"a loop with a bulk operation":   {Loop(Void, fill, Get(0), BrIf(0)), entry + loop + turn + branch + bulk},
		"growth":                         {Seq(Get(0), Op(0x40, 0, 0x1a)), entry + bulk},
		"a fork behind a call":           {Seq(Call(7), Get(0), If(Void, Times(100, Op(0x01)))), entry + 1 + late},
		"a small function":               {Times(90, Op(0x01)), 0},
		"many calls of small functions":  {Times(1200, Call(6)), entry + 1200*look},
	} {
		m := rich()
		m.Func("long", Sig(nil), nil, Times(200, Op(0x01)))
		m.Export("f", Sig([]byte{I32}), nil, c.code)
		_, report, err := Rewrite(m.Bytes(), Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := max(c.want, entry); report.Blocks != want {
			t.Errorf("%s counts as %d blocks, want %d", name, report.Blocks, want)
		}
	}
}
