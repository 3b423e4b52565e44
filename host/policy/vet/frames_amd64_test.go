package vet_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// TestNoFrameIsLargerThanReckoned holds what vet reckons a call to take of the
// stack against what the compiler takes: for real modules, for random ones, and
// for those that are made to have large frames by little code. What is reckoned
// leaves honest modules room to call themselves.
func TestNoFrameIsLargerThanReckoned(t *testing.T) {
	t.Parallel()
	modules := realModules(t)
	modules["Go"] = modules["Go"][:1]
	for seed := range max(40, *manyModules) {
		modules["random"] = append(modules["random"], wasmtest.Random(seed))
		modules["odd"] = append(modules["odd"], oddFrames(seed))
	}
	modules["odd"] = append(modules["odd"], nested(300, 300))
	modules["odd"] = append(modules["odd"], single()...)
	for _, from := range []string{"C", "TinyGo", "Go", "random", "odd"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			var times []float64
			var largest, most int64
			for n, wasm := range modules[from] {
				out, reckoned, err := vet.Frames(wasm)
				check(t, err)
				for i, have := range realFrames(t, out) {
					if have == 0 || have > reckoned[i] {
						t.Errorf("module %d: function %d takes %d bytes of stack, more than the %d reckoned", n, i, have, reckoned[i])
					}
					times = append(times, float64(reckoned[i])/float64(max(have, 1)))
					largest, most = max(largest, have), max(most, reckoned[i])
				}
			}
			if deep := vet.StackBytes / most; deep < 50 && from != "odd" {
				t.Errorf("a function can call itself %d deep, which honest ones may exceed", deep)
			}
			slices.Sort(times)
			if len(times) > 0 {
				t.Logf("%d functions, the largest frame %d bytes; reckoned %.1f to %.1f times, half of them below %.1f, nine in ten below %.1f",
					len(times), largest, times[0], times[len(times)-1], times[len(times)/2], times[len(times)*9/10])
			}
		})
	}
}

// TestNoOddFrameIsLargerThanReckoned holds the same of what needs no compiler of
// another language: of functions that are made to have large frames.
func TestNoOddFrameIsLargerThanReckoned(t *testing.T) {
	t.Parallel()
	all := single()
	for seed := range uint64(40) {
		all = append(all, oddFrames(1000+seed))
	}
	for n, wasm := range all {
		out, reckoned, err := vet.Frames(wasm)
		check(t, err)
		for i, have := range realFrames(t, out) {
			if have == 0 || have > reckoned[i] {
				t.Errorf("module %d: function %d takes %d bytes of stack, more than the %d reckoned", n, i, have, reckoned[i])
			}
		}
	}
}

// realFrames are the bytes of stack that each function of a module looks for on
// entering: its frame, and what its calls need beside.
func realFrames(t *testing.T, wasm []byte) []int64 {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	compiled, err := wazero.NewCompilationCacheWithDir(dir)
	check(t, err)
	defer compiled.Close(ctx)
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCompilationCache(compiled))
	defer r.Close(ctx)
	_, err = r.CompileModule(ctx, wasm)
	check(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the compiler leaves %v, %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	check(t, err)
	b = b[7+int(b[6]):] // magic, length of the version, version
	n := binary.LittleEndian.Uint32(b)
	offsets, code := b[4:4+8*n], b[4+8*n+8:]
	frames := make([]int64, n)
	for i := range frames {
		frames[i] = lookedFor(code[binary.LittleEndian.Uint64(offsets[8*i:]):])
	}
	return frames
}

// lookedFor is the operand of the first "sub rsp", which takes the frame for as
// long as the stack is looked at.
func lookedFor(code []byte) int64 {
	for i := range 32 {
		switch at := code[i:]; {
		case at[0] == 0x48 && at[1] == 0x81 && at[2] == 0xec:
			return int64(binary.LittleEndian.Uint32(at[3:]))
		case at[0] == 0x48 && at[1] == 0x83 && at[2] == 0xec:
			return int64(at[3])
		}
	}
	return 0
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// odd makes functions of many values that live long.
type odd struct {
	*rand.Rand
	types   []byte // of the locals
	globals int
	many    uint32 // a function of many results
	none    uint32 // one of none
	deep    int
}

func oddFrames(seed uint64) []byte {
	m := wasmtest.Policy()
	m.Sizes = []uint32{1, 1}
	g := &odd{Rand: rand.New(rand.NewPCG(seed, 7)), globals: 1}
	for range 1 + g.IntN(12) {
		g.globals = 1 + int(m.Global(1))
	}
	results := slices.Repeat([]byte{g.kind()}, 1+g.IntN(16))
	g.many = m.Func("many", wasmtest.Sig(nil, results...), nil, wasmtest.Op(0x00))
	g.none = m.Func("none", wasmtest.Sig(nil), nil, wasmtest.Op(0x00))
	for range 3 {
		g.types = nil
		for range 1 + g.IntN(60) {
			g.types = append(g.types, g.kind())
		}
		var code []byte
		for range 1 + g.IntN(30) {
			code = append(code, g.statement(len(results))...)
		}
		m.Func("odd", wasmtest.Sig([]byte{wasmtest.I32}), g.types, code, g.useAll())
	}
	return m.Bytes()
}

const v128 = 0x7b

func (g *odd) kind() byte {
	return []byte{wasmtest.I32, wasmtest.I64, wasmtest.F64, v128}[g.IntN(4)]
}

// useAll uses each local, so that what it was set to has to be kept.
func (g *odd) useAll() []byte {
	var code []byte
	for i, t := range g.types {
		code = append(code, wasmtest.Seq(wasmtest.I32Const(8), wasmtest.Get(uint32(i+1)), store(t))...)
	}
	for i := range g.globals {
		code = append(code, wasmtest.Seq(wasmtest.I32Const(8), wasmtest.GlobalGet(uint32(i)), store(wasmtest.I64))...)
	}
	return code
}

func store(t byte) []byte {
	return map[byte][]byte{wasmtest.I32: wasmtest.Store32(0), wasmtest.I64: wasmtest.Store64(0),
		wasmtest.F64: wasmtest.Op(0x39, 3, 0), v128: wasmtest.Op(0xfd, 11, 4, 0)}[t]
}

func load(t byte) []byte {
	return map[byte][]byte{wasmtest.I32: wasmtest.Load32(0), wasmtest.I64: wasmtest.Load64(0),
		wasmtest.F64: wasmtest.Op(0x2b, 3, 0), v128: wasmtest.Op(0xfd, 0, 4, 0)}[t]
}

func (g *odd) some() (local uint32, t byte) {
	i := g.IntN(len(g.types))
	return uint32(i + 1), g.types[i]
}

func (g *odd) address() []byte {
	if i := slices.Index(g.types, byte(wasmtest.I32)); i >= 0 && g.IntN(2) == 0 {
		return wasmtest.Get(uint32(i + 1))
	}
	return wasmtest.Get(0)
}

// set gives a local a new value.
func (g *odd) set() []byte {
	local, t := g.some()
	return wasmtest.Seq(g.address(), load(t), wasmtest.Set(local))
}

// use uses a local, by as little as can be.
func (g *odd) use() []byte {
	for range 8 {
		if local, t := g.some(); t == wasmtest.I64 {
			return wasmtest.Seq(wasmtest.Get(local), wasmtest.GlobalSet(0))
		}
	}
	return nil
}

// setAll gives all of them new values.
func (g *odd) setAll() []byte {
	var code []byte
	for i, t := range g.types {
		code = append(code, wasmtest.Seq(g.address(), load(t), wasmtest.Set(uint32(i+1)))...)
	}
	return code
}

func (g *odd) statement(results int) []byte {
	if g.deep > 6 {
		return g.set()
	}
	g.deep++
	defer func() { g.deep-- }()
	n := g.IntN(14)
	if n < 7 {
		return g.way(n, results)
	}
	return g.hold(n, results)
}

// way is a statement whose ways, or calls, make values.
func (g *odd) way(n, results int) []byte {
	switch n {
	case 0:
		return g.setAll()
	case 1:
		return wasmtest.Call(g.none)
	case 2: // what it gives waits for another call
		return wasmtest.Seq(wasmtest.Call(g.many), wasmtest.Call(g.none), wasmtest.Times(results, wasmtest.Op(0x1a)))
	case 3: // blocks within blocks, left from the innermost, and set on the way out
		n := 1 + g.IntN(20)
		code := wasmtest.Seq(wasmtest.Times(n, wasmtest.Op(0x02, wasmtest.Void)))
		for i := range n {
			code = append(code, wasmtest.Seq(wasmtest.Get(0), wasmtest.BrIf(uint32(i)))...)
		}
		code = append(code, g.setAll()...)
		for range n {
			code = append(code, wasmtest.Seq(wasmtest.Call(g.none), wasmtest.Op(0x0b))...)
		}
		return code
	case 4:
		return wasmtest.Loop(wasmtest.Void, g.statement(results), g.set(), wasmtest.Get(0), wasmtest.BrIf(0), g.statement(results))
	case 5:
		return wasmtest.Seq(wasmtest.Get(0), wasmtest.Op(0x04, wasmtest.Void), g.statement(results), wasmtest.Op(0x05), g.statement(results), wasmtest.Op(0x0b))
	default: // many values wait
		n := 1 + g.IntN(60)
		return wasmtest.Seq(wasmtest.Times(n, wasmtest.Op(0x41, 8), wasmtest.Get(0), load(wasmtest.I64)), wasmtest.Call(g.none), wasmtest.Times(n, wasmtest.Store64(0)))
	}
}

// hold is a statement whose values are kept for long.
func (g *odd) hold(n, results int) []byte {
	switch n {
	case 7: // the same addresses again and again
		var code []byte
		for i, t := range g.types {
			if t == wasmtest.I32 {
				code = append(code, wasmtest.Seq(wasmtest.Get(uint32(i+1)), wasmtest.Get(uint32(i+1)), wasmtest.Load32(4), wasmtest.Store32(0))...)
			}
		}
		return wasmtest.Seq(code, code)
	case 8:
		return wasmtest.Seq(wasmtest.I64Const(3), wasmtest.GlobalSet(uint32(g.IntN(g.globals))), g.statement(results))
	case 9: // blocks within blocks, one of which a branch table goes to
		n := 1 + g.IntN(12)
		code := wasmtest.Seq(wasmtest.Times(n, wasmtest.Op(0x02, wasmtest.Void)), wasmtest.Get(0), wasmtest.Op(0x0e, byte(n-1)))
		for i := range n {
			code = append(code, byte(i))
		}
		for range n {
			code = append(code, wasmtest.Seq(wasmtest.Op(0x0b), g.use(), g.set())...)
		}
		return code
	case 10: // values wait of which a local keeps another hold
		local, t := g.some()
		n := 1 + g.IntN(20)
		return wasmtest.Seq(wasmtest.Times(n, wasmtest.Op(0x41, 8), wasmtest.Get(0), load(t), wasmtest.Tee(local)), g.statement(results), wasmtest.Times(n, store(t)))
	case 11:
		return wasmtest.Times(1+g.IntN(30), g.address(), wasmtest.Op(0x11, 0, byte(g.IntN(2))))
	case 12: // what asks the host within an instruction
		one := [][]byte{
			wasmtest.Seq(g.address(), wasmtest.Op(0x40, 0, 0x1a)),
			wasmtest.Seq(g.address(), g.address(), g.address(), wasmtest.Op(0xfc, 11, 0)),
			wasmtest.Seq(g.address(), g.address(), g.address(), wasmtest.Op(0xfc, 10, 0, 0)),
			wasmtest.Seq(g.address(), g.address(), g.address(), wasmtest.Op(0xfc, 14, 1, 0)),
		}[g.IntN(4)]
		return wasmtest.Seq(wasmtest.Times(1+g.IntN(20), one), g.set())
	default: // waits for a block, whose value is one of two
		return wasmtest.Seq(wasmtest.I32Const(8), wasmtest.Get(0), wasmtest.Op(0x04, wasmtest.I64), g.statement(results), wasmtest.Get(0), load(wasmtest.I64),
			wasmtest.Op(0x05), wasmtest.GlobalGet(0), wasmtest.Op(0x0b), wasmtest.Store64(0))
	}
}

// nested is a function that leaves so many blocks before so many locals are set,
// or after: each block's end has a value of its own for each of them.
func nested(locals, blocks int) []byte {
	g := &odd{types: slices.Repeat([]byte{wasmtest.I64}, locals)}
	m := wasmtest.Policy()
	none := m.Func("none", wasmtest.Sig(nil), nil, wasmtest.Op(0x00))
	code := wasmtest.Times(blocks, wasmtest.Op(0x02, wasmtest.Void))
	for i := range blocks {
		code = append(code, wasmtest.Seq(wasmtest.Get(0), wasmtest.BrIf(uint32(i)))...)
	}
	for i := range g.types {
		code = append(code, wasmtest.Seq(wasmtest.Get(0), wasmtest.Load64(0), wasmtest.Set(uint32(i+1)))...)
	}
	m.Func("nested", wasmtest.Sig([]byte{wasmtest.I32}), g.types, code, wasmtest.Times(blocks, wasmtest.Call(none), wasmtest.Op(0x0b)), g.useAll())
	return m.Bytes()
}

// single are functions whose frames are due to one thing each.
func single() [][]byte {
	const many = 200
	g := &odd{types: slices.Repeat([]byte{wasmtest.I64}, many)}
	set := func(i int) []byte {
		return wasmtest.Seq(wasmtest.GlobalGet(0), wasmtest.I64Const(int64(i+1)), wasmtest.Op(0x7c), wasmtest.Set(uint32(i+1)))
	}
	var setAll, readAll, giveAll, teeAll []byte
	for i := range many {
		setAll = append(setAll, set(i)...)
		teeAll = append(teeAll, wasmtest.Seq(wasmtest.GlobalGet(0), wasmtest.I64Const(int64(i+1)), wasmtest.Op(0x7c), wasmtest.Tee(uint32(i+1)))...)
		giveAll = append(giveAll, wasmtest.Seq(wasmtest.Get(uint32(i+1)), wasmtest.GlobalSet(0))...)
		readAll = append(readAll, wasmtest.Seq(wasmtest.I32Const(8), wasmtest.GlobalGet(uint32(i)), wasmtest.Store64(0))...)
	}
	maybe := wasmtest.Seq(wasmtest.Get(0), wasmtest.If(wasmtest.Void, setAll))
	call, again := wasmtest.Call(0), wasmtest.Seq(wasmtest.Get(0), wasmtest.BrIf(0))
	var all [][]byte
	for _, code := range [][]byte{
		wasmtest.Seq(setAll, call, g.useAll()), // locals
		wasmtest.Seq(setAll, call, wasmtest.Get(0), wasmtest.Op(0x04, wasmtest.Void, 0x05), g.useAll(), wasmtest.Op(0x0b)), // that an else uses
		wasmtest.Seq(setAll, call, wasmtest.Block(wasmtest.Void, wasmtest.Get(0), wasmtest.Op(0x0e, 1, 0, 0)), giveAll),    // that a br_table leads to
		wasmtest.Times(20, call, readAll), // globals
		wasmtest.Seq(wasmtest.Times(20, wasmtest.Op(0x03, wasmtest.Void)), maybe, wasmtest.Times(20, call, again, wasmtest.Op(0x0b)), g.useAll()), // loops
		wasmtest.Loop(wasmtest.Void, g.useAll(), wasmtest.Loop(wasmtest.Void, wasmtest.Times(20, maybe, call), again), again),                     // what a loop around uses
		wasmtest.Times(1000, call), // fuel
		wasmtest.Seq(teeAll, call, wasmtest.Times(many, wasmtest.GlobalSet(0))), // what a local was set to and nobody reads there
		wasmtest.Times(300, wasmtest.Get(0), wasmtest.Op(0x11, 0, 0)),           // where in the table it looked
	} {
		m := wasmtest.Policy()
		m.Sizes = []uint32{1}
		for range many {
			m.Global(1)
		}
		m.Func("single", wasmtest.Sig([]byte{wasmtest.I32}), g.types, code)
		all = append(all, m.Bytes())
	}
	return all
}
