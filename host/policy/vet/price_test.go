package vet_test

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/berth-dev/berth/host/policy/vet"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// price is the fuel that a function of that code takes, in a module with two
// tables of 1,000 entries, data and elements.
func price(t *testing.T, code ...[]byte) int64 {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	g := grant(t, r)
	g.slice = 1 << 50
	_, err := r.NewHostModuleBuilder(vet.ModuleBerth).NewFunctionBuilder().WithFunc(func(int32, int32) {}).Export("count").Instantiate(ctx)
	check(t, err)
	m := Policy(Import{From: vet.ModuleBerth, Name: "count", Type: Sig([]byte{I32, I32})})
	m.Sizes, m.Elem = []uint32{1000, 1000}, make([]uint32, 1000)
	small := m.Func("small", Sig(nil), nil, Times(80, Op(0x01)))
	for i := range m.Elem {
		m.Elem[i] = small
	}
	m.Memory = &[2]uint32{2, 1024}
	m.Passive(make([]byte, 1000))
	m.Global(1)
	m.Export("run", Sig(nil), []byte{I32, I64, F32, F64}, code...)
	metered, _, err := vet.Rewrite(m.Bytes(), vet.Limits{})
	check(t, err)
	i, err := r.InstantiateWithConfig(ctx, metered, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	check(t, err)
	const all = 1 << 40
	fuel := i.ExportedGlobal(vet.FuelExport).(api.MutableGlobal)
	fuel.Set(all)
	_, err = i.ExportedFunction("run").Call(ctx)
	check(t, err)
	return all + g.granted - int64(fuel.Get())
}

// TestABulkOperationIsPaidByItsSize holds that whoever moves more pays more: four
// bytes for a unit, an entry of a table for four, a page for what putting it
// there takes.
func TestABulkOperationIsPaidByItsSize(t *testing.T) {
	t.Parallel()
	three := func(size int32) []byte { return Seq(I32Const(0), I32Const(0), I32Const(size)) }
	for name, c := range map[string]struct {
		code        func(size int32) []byte
		one, two    int32
		more, least int64 // of the larger than of the smaller, and of that
	}{
		"memory.fill": {func(n int32) []byte { return Seq(three(n), Op(0xfc, 11, 0)) }, 100, 100_100, 25_000, 25 + 30},
		"memory.copy": {func(n int32) []byte { return Seq(three(n), Op(0xfc, 10, 0, 0)) }, 100, 100_100, 25_000, 25 + 30},
		"memory.init": {func(n int32) []byte { return Seq(three(n), Op(0xfc, 8, 1, 0)) }, 100, 900, 200, 25 + 30},
		"table.fill":  {func(n int32) []byte { return Seq(I32Const(0), Op(0xd0, 0x70), I32Const(n), Op(0xfc, 17, 0)) }, 100, 900, 3200, 400 + 30},
		"table.copy":  {func(n int32) []byte { return Seq(three(n), Op(0xfc, 14, 1, 0)) }, 100, 900, 3200, 400 + 30},
		"table.init":  {func(n int32) []byte { return Seq(three(n), Op(0xfc, 12, 0, 0)) }, 0, 0, 0, 30}, // an active segment is dropped
		"memory.grow": {func(n int32) []byte { return Seq(I32Const(n), Op(0x40, 0, 0x1a)) }, 1, 11, 240_000, 24_000 + 3000 + 30},
	} {
		one, two := price(t, c.code(c.one)), price(t, c.code(c.two))
		if two-one != c.more || one < c.least {
			t.Errorf("%s of %d takes %d of fuel, of %d %d; want %d at least, and %d more", name, c.one, one, c.two, two, c.least, c.more)
		}
	}
	// A size is unsigned, and paid before the operation fails.
	huge := Seq(I32Const(-1), Op(0x40, 0, 0x1a))
	if got := price(t, huge); got < 24_000*(1<<32-1) {
		t.Errorf("growth by 4 billion pages takes %d of fuel", got)
	}
}

// TestWhatIsNotRunIsNotPaid holds that nobody pays for a dear way that is not
// gone; and for one that an export or a table's function goes, somebody does.
func TestWhatIsNotRunIsNotPaid(t *testing.T) {
	t.Parallel()
	const dear, cheap = 900 * 16, 100
	roots := Seq(F64Const(2), Times(900, Op(0x9f)), Op(0x1a))
	for name, code := range map[string][]byte{
		"an if":               Seq(Get(0), If(Void, roots)),
		"an else":             Seq(I32Const(1), Op(0x04, Void, 0x05), roots, Op(0x0b)),
		"behind a branch":     Block(Void, I32Const(1), BrIf(0), roots),
		"a way of br_table":   Block(Void, Block(Void, I32Const(1), Op(0x0e, 1, 0, 1)), roots),
		"a way within a loop": Loop(Void, Get(0), If(Void, roots)),
	} {
		if got := price(t, code); got > cheap {
			t.Errorf("%s that is not gone takes %d of fuel, want %d at most", name, got, cheap)
		}
	}
	for name, code := range map[string][]byte{
		"an if":             Seq(I32Const(1), If(Void, roots)),
		"an else":           Seq(Get(0), Op(0x04, Void, 0x05), roots, Op(0x0b)),
		"behind a branch":   Block(Void, Get(0), BrIf(0), roots),
		"a way of br_table": Block(Void, Block(Void, Get(0), Op(0x0e, 1, 0, 1)), roots),
	} {
		if got := price(t, code); got < dear {
			t.Errorf("%s that is gone takes %d of fuel, want %d at least", name, got, dear)
		}
	}
	if got := price(t, Times(90, Op(0x01))); got < 90 {
		t.Errorf("a small export takes %d of fuel", got)
	}
}

// TestWhatTakesLongIsDear holds that an instruction which takes a processor long
// at its worst costs more than a simple one.
func TestWhatTakesLongIsDear(t *testing.T) {
	t.Parallel()
	const n = 1000
	ints, longs := Seq(I32Const(7), I32Const(7)), Seq(I64Const(7), I64Const(7))
	floats := Seq(F64Const(2), F64Const(2))
	pair := func(code []byte, op byte) []byte { return Seq(code, Op(op, 0x1a)) }
	vector := func(sub ...byte) []byte {
		return Seq(Get(1), Op(0xfd, 18), Get(1), Op(0xfd, 18), Op(0xfd), sub, Op(0x1a))
	}
	for name, c := range map[string]struct {
		code  []byte
		least int64 // units, with its operands
	}{
		"i32.div_s":      {pair(ints, 0x6d), 18},
		"i32.div_u":      {pair(ints, 0x6e), 18},
		"i32.rem_s":      {pair(ints, 0x6f), 18},
		"i32.rem_u":      {pair(ints, 0x70), 18},
		"i64.div_s":      {pair(longs, 0x7f), 18},
		"i64.div_u":      {pair(longs, 0x80), 18},
		"i64.rem_s":      {pair(longs, 0x81), 18},
		"i64.rem_u":      {pair(longs, 0x82), 18},
		"f64.div":        {pair(floats, 0xa3), 18},
		"f64.sqrt":       {pair(F64Const(2), 0x9f), 17},
		"f64.min":        {pair(floats, 0xa4), 6},
		"f64.nearest":    {pair(F64Const(2), 0x9e), 5},
		"f64.add":        {pair(floats, 0xa0), 4},
		"i32.mul":        {pair(ints, 0x6c), 4},
		"i64.mul":        {pair(longs, 0x7e), 4},
		"i32.trunc":      {pair(F64Const(2), 0xaa), 5},
		"i32.trunc_sat":  {Seq(F64Const(2), Op(0xfc, 2, 0x1a)), 5},
		"f64x2.div":      {vector(U32(0xf3)...), 2*5 + 4 + 32},
		"f64x2.sqrt":     {Seq(Get(1), Op(0xfd, 18), Op(0xfd), U32(0xef), Op(0x1a)), 5 + 4 + 32},
		"f32x4.div":      {vector(U32(0xe7)...), 2*5 + 4 + 32},
		"f32x4.sqrt":     {Seq(Get(1), Op(0xfd, 18), Op(0xfd), U32(0xe3), Op(0x1a)), 5 + 4 + 32},
		"i64x2.add":      {vector(U32(0xce)...), 2 + 12},
		"a load":         {Seq(Get(0), Load64(0), Op(0x1a)), 5},
		"a store":        {Seq(Get(0), Get(1), Store64(0)), 6},
		"a global":       {Seq(GlobalGet(0), Op(0x1a)), 2},
		"memory.size":    {Op(0x3f, 0, 0x1a), 4},
		"table.get":      {Seq(Get(0), Op(0x25, 0, 0x1a)), 5},
		"table.set":      {Seq(Get(0), Op(0xd0, 0x70, 0x26, 0)), 102},
		"ref.func":       {Op(0xd2, 1, 0x1a), 4},
		"data.drop":      {Op(0xfc, 9, 1), 34},
		"elem.drop":      {Op(0xfc, 13, 0), 34},
		"table.size":     {Op(0xfc, 16, 0, 0x1a), 34},
		"br_table":       {Block(Void, Get(0), Op(0x0e, 1, 0, 0)), 5},
		"an if":          {Seq(Get(0), Op(0x04, Void, 0x0b)), 2},
		"a call":         {Call(1), 6},
		"a table's call": {Seq(I32Const(0), Op(0x11, 1, 0)), 13 + 80},
		"an import":      {Seq(Get(0), Get(0), Call(0)), 108},
	} {
		if got := price(t, Times(2*n, c.code)) - price(t, Times(n, c.code)); got < c.least*n {
			t.Errorf("%s: %d of them take %d of fuel, want %d at least", name, n, got, c.least*n)
		}
	}
}

// TestTheFirstFunctionIsMeteredToo holds that a small function pays for itself where
// the host or a table calls it, though it is the first of the module's own.
func TestTheFirstFunctionIsMeteredToo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(m *Module)
		want int64 // at least
	}{
		"an export": {func(m *Module) { m.ExportRaw("run", 0, 0) }, 80},
		"what a table may hold": {func(m *Module) {
			m.Sizes, m.Elem = []uint32{1}, []uint32{0}
			m.Export("run", Sig(nil), nil, Times(10, I32Const(0), Op(0x11), U32(m.Type(Sig(nil))), Op(0)))
		}, 800},
	} {
		m := Empty()
		m.Func("first", Sig(nil), nil, Times(80, Op(0x01)))
		m.Export("berth_abi_v1", Sig(nil), nil)
		m.Export("berth_manifest", Sig(nil, I64), nil, I64Const(0))
		m.Export("berth_input", Sig([]byte{I32}, I32), nil, Get(0))
		m.Export("berth_open", Sig([]byte{I32}, I32), nil, Get(0))
		c.do(m)
		i := rewritten(t, m)
		fuel := i.ExportedGlobal(vet.FuelExport).(api.MutableGlobal)
		fuel.Set(1 << 30)
		_, err := i.ExportedFunction("run").Call(context.Background())
		check(t, err)
		if took := 1<<30 - int64(fuel.Get()); took < c.want {
			t.Errorf("%s: it takes %d of fuel, want %d at least", name, took, c.want)
		}
	}
}
