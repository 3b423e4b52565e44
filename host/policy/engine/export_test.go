package engine

import (
	"context"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/berth-dev/berth/host/policy/vet"
)

// Plain is a module of our own as it is, without a meter, to compare.
type Plain struct{ shared *shared }

// LoadPlain has a module compiled as it is.
func LoadPlain(ctx context.Context, e *Engine, wasm []byte) (*Plain, error) {
	_, report, err := vet.Rewrite(wasm, vet.Limits{})
	if err != nil {
		return nil, err
	}
	name := entryName(wasm, e.features)
	entry, err := e.entry(ctx, name, wasm, report.Functions)
	if err != nil {
		return nil, err
	}
	s, err := e.link(ctx, name, entry, wasm)
	return &Plain{s}, err
}

// Close frees the code.
func (p *Plain) Close() { p.shared.free() }

// Open makes an instance of it.
func (p *Plain) Open(ctx context.Context) (*Instance, error) {
	i := &Instance{shared: p.shared, guest: newGuest(OpenConfig{}), depth: &noFuel{}}
	i.guest.fuel = &noFuel{}
	i.ctx = context.WithValue(ctx, guestKey{}, i.guest)
	i.memory.room = new(memoryQuota)
	i.memory.room.init(0)
	var err error
	i.module, err = p.shared.runtime.InstantiateModule(experimental.WithMemoryAllocator(i.ctx, &i.memory), p.shared.module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, err
	}
	return i, i.initialize(1 << 40)
}

// noFuel is a counter that nothing in the guest touches.
type noFuel struct {
	api.MutableGlobal
	v uint64
}

func (f *noFuel) Get() uint64  { return f.v }
func (f *noFuel) Set(v uint64) { f.v = v }

// StackBytes is how much stack an instance keeps between calls.
func (i *Instance) StackBytes() int64 { return i.stacks }
