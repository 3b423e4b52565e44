package engine

import (
	"context"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// RaceEnabled says that the race detector slows all down.
const RaceEnabled = raceEnabled

// OpenPlain opens a module of our own as it is, without a meter, to compare.
func OpenPlain(ctx context.Context, wasm []byte) (*Instance, func(), error) {
	compiled := wazero.NewCompilationCache()
	s := &shared{compiled: compiled, runtime: wazero.NewRuntimeWithConfig(ctx, runtimeConfig(compiled))}
	var err error
	if s.module, err = s.runtime.CompileModule(ctx, wasm); err == nil {
		err = provideImports(ctx, s.runtime, s.module)
	}
	if err != nil {
		return nil, nil, err
	}
	i := &Instance{shared: s, guest: newGuest(OpenConfig{}), fuel: &noFuel{}, depth: &noFuel{}}
	i.guest.fuel = i.fuel
	i.ctx = context.WithValue(ctx, guestKey{}, i.guest)
	i.module, err = s.runtime.InstantiateModule(experimental.WithMemoryAllocator(i.ctx, &i.memory), s.module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, nil, err
	}
	i.input = i.module.ExportedFunction("berth_input")
	return i, func() { i.Close(); s.free() }, i.initialize(1 << 40)
}

// noFuel is a counter that nothing in the guest touches.
type noFuel struct {
	api.MutableGlobal
	v uint64
}

func (f *noFuel) Get() uint64  { return f.v }
func (f *noFuel) Set(v uint64) { f.v = v }
