package vet_test

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/berth-dev/berth/host/policy/vet"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// overdraw runs a module's run with no fuel, which it is granted in slices of one
// unit beyond what it owes, and tells what it owed at most when it asked, or at
// its end.
func overdraw(t *testing.T, wasm []byte) int64 {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	defer r.Close(ctx)
	var most int64
	_, err := r.NewHostModuleBuilder(vet.YieldModule).NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, _ []uint64) {
		fuel := m.ExportedGlobal(vet.FuelExport).(api.MutableGlobal)
		most = max(most, -int64(fuel.Get()))
		fuel.Set(0)
	}), nil, nil).Export(vet.YieldName).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	metered, report, err := vet.Rewrite(wasm, vet.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.InstantiateWithConfig(ctx, metered, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.ExportedFunction("run").Call(ctx)
	t.Logf("run: %v; %d charges, the largest %d, body %d", err, report.Charges, report.Largest, report.BodyBytes)
	return max(most, -int64(m.ExportedGlobal(vet.FuelExport).Get()))
}

// TestWhatLiesBetweenTwoLooksIsBounded holds that no way through a module costs
// more between two looks at its fuel than one function can.
func TestWhatLiesBetweenTwoLooksIsBounded(t *testing.T) {
	t.Parallel()
	const most = 720_000
	// roots are 15,000 units that are charged on a fork of their own.
	roots := If(Void, F64Const(2), Times(900, Op(0x9f)), Op(0x1a))
	always := I32Const(1)
	for name, build := range map[string]func(m *Module){
		"tails of a recursion": func(m *Module) {
			self := m.Func("first", Sig(nil), nil) + 1
			m.Func("again", Sig([]byte{I32}), nil,
				Get(0), If(Void, Get(0), I32Const(1), Op(0x6b), Call(self)), Get(0), roots)
			m.Export("run", Sig(nil), nil, I32Const(1000), Call(self))
		},
		"tails of a chain of functions": func(m *Module) {
			last := m.Func("leaf", Sig(nil), nil, roots[:0], Loop(Void))
			for range 1000 {
				last = m.Func("link", Sig(nil), nil, Call(last), always, roots)
			}
			m.Export("run", Sig(nil), nil, Call(last))
		},
		"small tails of a deep recursion": func(m *Module) {
			self := m.Func("first", Sig(nil), nil) + 1
			m.Func("again", Sig([]byte{I32}), nil,
				Get(0), If(Void, Get(0), I32Const(1), Op(0x6b), Call(self)),
				Get(0), If(Void, F64Const(2), Times(6, Op(0x9f)), Op(0x1a)))
			m.Export("run", Sig(nil), nil, I32Const(10_000), Call(self))
		},
		"tails of calls through a table": func(m *Module) {
			self := m.Func("first", Sig(nil), nil) + 1
			m.Sizes, m.Elem = []uint32{1}, []uint32{self}
			m.Func("again", Sig([]byte{I32}), nil,
				Get(0), If(Void, Get(0), I32Const(1), Op(0x6b), I32Const(0), Op(0x11), U32(m.Type(Sig([]byte{I32}))), Op(0)), Get(0), roots)
			m.Export("run", Sig(nil), nil, I32Const(1000), Call(self))
		},
		"many calls of small functions": func(m *Module) {
			small := m.Func("small", Sig(nil), nil, F64Const(2), Times(5, Op(0x9f)), Op(0x1a))
			m.Export("run", Sig(nil), nil, Times(8000, Call(small)))
		},
		"many calls of small functions through a table": func(m *Module) {
			small := m.Func("small", Sig(nil), nil, F64Const(2), Times(5, Op(0x9f)), Op(0x1a))
			m.Sizes, m.Elem = []uint32{1}, []uint32{small}
			m.Export("run", Sig(nil), nil, Times(8000, I32Const(0), Op(0x11), U32(m.Type(Sig(nil))), Op(0)))
		},
		"as many as make a function no longer heavy but for what they call": func(m *Module) {
			small := m.Func("small", Sig(nil), nil, F64Const(2), Times(5, Op(0x9f)), Op(0x1a), Times(12, Op(0x01)))
			m.Sizes, m.Elem = []uint32{1}, []uint32{small}
			m.Export("run", Sig(nil), nil, Times(7600, I32Const(0), Op(0x11), U32(m.Type(Sig(nil))), Op(0)))
		},
		"tails of small functions' calls": func(m *Module) {
			small := m.Func("small", Sig(nil), nil, F64Const(2), Times(5, Op(0x9f)), Op(0x1a))
			self := m.Func("first", Sig(nil), nil) + 1
			m.Func("again", Sig([]byte{I32}), nil,
				Get(0), If(Void, Get(0), I32Const(1), Op(0x6b), Call(self)),
				Get(0), If(Void, Times(900, Call(small))))
			m.Export("run", Sig(nil), nil, I32Const(500), Call(self))
		},
		"heads of a recursion": func(m *Module) {
			self := m.Func("first", Sig(nil), nil) + 1
			m.Func("again", Sig([]byte{I32}), nil, F64Const(2), Times(60, Op(0x9f)), Op(0x1a),
				Get(0), If(Void, Get(0), I32Const(1), Op(0x6b), Call(self)))
			m.Export("run", Sig(nil), nil, I32Const(10_000), Call(self))
		},
		"turns of a loop that calls": func(m *Module) {
			small := m.Func("small", Sig(nil), nil, F64Const(2), Times(5, Op(0x9f)), Op(0x1a))
			m.Export("run", Sig(nil), []byte{I32}, Count(0, 20_000, Call(small)))
		},
		"turns of a loop that takes a value": func(m *Module) {
			m.Export("run", Sig(nil), []byte{I32}, I32Const(200_000), Op(0x03), U32(m.Type(Sig([]byte{I32}))),
				Tee(0), I32Const(1), Op(0x6b), Tee(0), Get(0), BrIf(0), Op(0x1a, 0x0b))
		},
		"a long straight line": func(m *Module) {
			m.Export("run", Sig(nil), nil, F64Const(2), Times(20_000, Op(0x9f)), Op(0x1a))
		},
		"forks one after the other": func(m *Module) {
			m.Export("run", Sig(nil), nil, Times(20, always, roots))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Policy()
			build(m)
			got := overdraw(t, m.Bytes())
			t.Logf("%d units", got)
			if got > most {
				t.Errorf("it owes %d units at once, want %d at most", got, most)
			}
		})
	}
}

// TestValuesThatCallsLeaveTakeStack holds that a function which calls itself with
// many values on its operand stack, which a few bytes put there, pays for them.
func TestValuesThatCallsLeaveTakeStack(t *testing.T) {
	t.Parallel()
	const calls, results, most = 100, 16, vet.StackBytes
	sixteen := make([]byte, results)
	for i := range sixteen {
		sixteen[i] = I64
	}
	give, take := Sig(nil, sixteen...), Sig(sixteen)
	for name, call := range map[string]func(m *Module, f uint32) []byte{
		"by name":         func(_ *Module, f uint32) []byte { return Call(f) },
		"through a table": func(m *Module, _ uint32) []byte { return Seq(I32Const(0), Op(0x11), U32(m.Type(give)), Op(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Policy()
			depth := m.Global(0)
			m.ExportRaw("depth", 3, depth)
			giver := m.Func("give", give, nil, Times(results, I64Const(1)))
			taker := m.Func("take", take, nil)
			m.Sizes, m.Elem = []uint32{1}, []uint32{giver}
			self := taker + 1
			m.Func("again", Sig(nil), nil, GlobalGet(depth), I64Const(1), Op(0x7c), GlobalSet(depth),
				Times(calls, call(m, giver)), Call(self), Times(calls, Call(taker)))
			m.Export("run", Sig(nil), nil, Call(self))
			ctx := context.Background()
			r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
			defer r.Close(ctx)
			g := grant(t, r)
			metered, _, err := vet.Rewrite(m.Bytes(), vet.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			i, err := r.InstantiateWithConfig(ctx, metered, wazero.NewModuleConfig().WithName(""))
			if err != nil {
				t.Fatal(err)
			}
			g.slice = 1 << 40
			if _, err := i.ExportedFunction("run").Call(ctx); err == nil || int64(i.ExportedGlobal(vet.StackExport).Get()) >= 0 {
				t.Fatalf("run = %v, want the end of the stack", err)
			}
			if took := i.ExportedGlobal("depth").Get() * calls * results * 8; took > most {
				t.Errorf("%d bytes of values wait on the stack, want %d at most", took, most)
			}
		})
	}
}
