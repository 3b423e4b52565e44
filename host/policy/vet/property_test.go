package vet_test

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

var manyModules = flag.Uint64("vet.modules", 0, "try that many random modules, instead of some hundreds")

// deed is what a module did.
type deed struct {
	Results [][]uint64
	Trapped []bool
	Globals [3]uint64
	Pages   uint32
	Memory  [sha256.Size]byte
}

var arguments = [][]uint64{{0, 0}, {7, math.MaxUint64}, {1 << 31, 1 << 40}}

// granting is the import by which a module gets its next slice of fuel.
type granting struct{ slice, granted, times int64 }

func (g *granting) yield(_ context.Context, m api.Module, _ []uint64) {
	fuel := m.ExportedGlobal(vet.FuelExport).(api.MutableGlobal)
	for left := int64(fuel.Get()); left < 0; left = int64(fuel.Get()) {
		fuel.Set(uint64(left + g.slice))
		g.granted += g.slice
	}
	g.times++
}

func grant(t *testing.T, r wazero.Runtime) *granting {
	t.Helper()
	g := &granting{}
	b := r.NewHostModuleBuilder(vet.YieldModule).NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(g.yield), nil, nil).Export(vet.YieldName)
	if _, err := b.Instantiate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return g
}

// run calls a random module's run with each of the arguments, in slices of that
// much fuel, and tells what that did and what fuel each call took.
func run(t *testing.T, r wazero.Runtime, g *granting, wasm []byte, slice int64) (d deed, took []int64) {
	t.Helper()
	ctx := context.Background()
	m, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(ctx)
	fuel, metered := m.ExportedGlobal(vet.FuelExport).(api.MutableGlobal)
	for _, args := range arguments {
		if metered {
			fuel.Set(uint64(slice))
			// It counts its calls itself, and how much a call takes differs with the meter.
			m.ExportedGlobal(vet.StackExport).(api.MutableGlobal).Set(1 << 40)
			g.slice, g.granted = slice, slice
		}
		results, err := m.ExportedFunction("run").Call(ctx, args...)
		d.Results = append(d.Results, results)
		d.Trapped = append(d.Trapped, err != nil)
		if metered {
			took = append(took, g.granted-int64(fuel.Get()))
		}
	}
	for i := range d.Globals {
		d.Globals[i] = m.ExportedGlobal(fmt.Sprint("g", i)).Get()
	}
	d.Pages = m.Memory().Size() / vet.PageBytes
	all, _ := m.Memory().Read(0, m.Memory().Size())
	d.Memory = sha256.Sum256(all)
	return d, took
}

// TestMeaningAndMetering holds of random modules what must hold of all: they do
// the same with and without the meter, and the meter takes at least the price of
// each instruction that ran.
func TestMeaningAndMetering(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		config  wazero.RuntimeConfig
		modules uint64
	}{
		{"interpreted", wazero.NewRuntimeConfigInterpreter(), 400},
		{"compiled", wazero.NewRuntimeConfigCompiler(), 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			r := wazero.NewRuntimeWithConfig(ctx, tt.config)
			defer r.Close(ctx)
			g := grant(t, r)
			tt.modules = max(tt.modules, *manyModules)
			trapped, spent, slices := 0, int64(0), int64(0)
			for seed := range tt.modules {
				wasm := wasmtest.Random(seed)
				metered, _, err := vet.Rewrite(wasm, vet.Limits{})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				exactly, err := vet.RewriteExactly(wasm)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				tightly, err := vet.RewriteTightly(wasm)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				want, _ := run(t, r, g, wasm, 0)
				_, whole := run(t, r, g, metered, 1<<40)
				for _, slice := range []int64{1, 40, 1000} {
					g.times = 0
					got, sliced := run(t, r, g, metered, slice)
					for i := range whole {
						if !want.Trapped[i] && sliced[i] != whole[i] {
							t.Fatalf("seed %d: call %d takes %d of fuel in slices of %d and %d at once", seed, i, sliced[i], slice, whole[i])
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("seed %d: the meter changes what the module does in slices of %d (-without +with):\n%s", seed, slice, diff)
					}
					slices += g.times
				}
				_, fuel := run(t, r, g, tightly, 1<<40)
				_, price := run(t, r, g, exactly, 1<<40)
				for i := range price {
					if fuel[i] < price[i] {
						t.Fatalf("seed %d: call %d took %d of fuel and ran instructions worth %d", seed, i, fuel[i], price[i])
					}
					if spent += price[i]; want.Trapped[i] {
						trapped++
					}
				}
			}
			calls := int(tt.modules) * len(arguments)
			if trapped == calls || spent < int64(calls)*100 {
				t.Errorf("of %d calls %d trapped, and they ran %d units: the modules do too little to show anything", calls, trapped, spent)
			}
			if slices < int64(calls)*10 {
				t.Errorf("%d calls took %d slices: too few to show anything", calls, slices)
			}
			t.Logf("%d calls, %d trapped, %d units of fuel, %d slices", calls, trapped, spent, slices)
		})
	}
}
