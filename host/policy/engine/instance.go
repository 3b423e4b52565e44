package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/berth-dev/berth/host/policy/vet"
)

// Instance is one sandbox. It serves one call at a time.
type Instance struct {
	shared  *shared
	release func()
	state   atomic.Int32
	failed  atomic.Pointer[Failure]

	// What follows belongs to the call that runs.
	ctx    context.Context // carries guest to the imports, nothing else
	guest  *guest
	memory memory
	module api.Module
	depth  api.Global // what is left of the stack for recursion
	input  handle
	funcs  [numFuncs]handle
	stacks int64 // bytes of the handles' stacks
	stack  [2]uint64
	out    []byte
	// place is where the guest says what it is at; 0 if it does not.
	place uint32
}

// States of an instance.
const (
	idle int32 = iota
	busy
	closing // in a call, which closes it when it ends
	closed
)

// Result is what a call gave.
type Result struct {
	// Status is what an export that answers a status answered; 0 is good. One that
	// answers a range says by 0 altogether that it failed: that is status 1 here.
	Status uint32
	// Packed is the answer of an export whose u64 is the answer itself.
	Packed uint64
	// Out is the answer of an export that answers a range. It is valid until
	// the instance's next call.
	Out  []byte
	Fuel Fuel
	Took time.Duration
}

type guestKey struct{}

// open makes an instance, which others may have closed as soon as it has entered
// the room; release is called once it is.
func (s *shared) open(ctx context.Context, c OpenConfig, release func()) (*Instance, error) {
	i := &Instance{shared: s, guest: newGuest(c)}
	i.ctx = context.WithValue(context.Background(), guestKey{}, i.guest)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i.state.Store(busy)
	i.memory.room = &s.engine.quota
	i.memory.priority.Store(int32(c.MemoryPriority))
	i.memory.room.enter(i)
	if err := i.start(c.Budget); err != nil {
		i.free()
		return nil, err
	}
	i.release = release
	if !i.state.CompareAndSwap(busy, idle) {
		i.release = nil
		needs := int64(i.memory.committed.Load())
		i.free()
		return nil, s.refuse(s.engine.quota.full(needs, c.MemoryPriority))
	}
	return i, nil
}

func (s *shared) refuse(err error) *Failure {
	return &Failure{Digest: s.digest, Export: "instantiation", Kind: Refused, At: -1, Err: err}
}

func (i *Instance) start(budget Fuel) error {
	s := i.shared
	if err := i.memory.begin(vet.PageBytes*uint64(s.report.MemoryMin), vet.PageBytes*uint64(s.report.MemoryMax), int64(s.report.HostBytes)); err != nil {
		return s.refuse(err)
	}
	module, err := s.runtime.InstantiateModule(
		experimental.WithMemoryAllocator(i.ctx, &i.memory), s.module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		what, _ := explain(err)
		return s.refuse(what)
	}
	i.module = module
	i.guest.fuel = module.ExportedGlobal(vet.FuelExport).(api.MutableGlobal)
	i.depth = module.ExportedGlobal(vet.StackExport)
	return i.initialize(budget)
}

func (i *Instance) initialize(budget Fuel) error {
	f := i.module.ExportedFunction("_initialize")
	if f == nil {
		return nil
	}
	if budget <= 0 {
		budget = StartBudget
	}
	start := time.Now()
	i.begin(budget, start)
	if err := f.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return i.fail("_initialize", budget, start, err)
	}
	return nil
}

func (i *Instance) begin(budget Fuel, now time.Time) {
	i.memory.refused = nil
	i.guest.begin(budget, uint64(i.module.Memory().Size()), now)
	if i.place != 0 {
		i.module.Memory().WriteUint32Le(i.place, nowhere)
	}
}

// MemoryBytes is how much memory the guest has now.
func (i *Instance) MemoryBytes() uint64 {
	if i.state.Load() == closed {
		return 0
	}
	return uint64(i.module.Memory().Size())
}

// Closed says whether the instance has been closed, by whomever.
func (i *Instance) Closed() bool { return i.state.Load() >= closing }

// SetRank says for whom the instance gives its memory up from now on.
func (i *Instance) SetMemoryPriority(r MemoryPriority) { i.memory.priority.Store(int32(r)) }

// Digest is the module's.
func (i *Instance) Digest() string { return i.shared.digest }

// Failure is what killed the instance, or nil.
func (i *Instance) Failure() *Failure { return i.failed.Load() }

// Call gives in to an export that takes input, under a budget. An error is a
// *Failure, which kills the instance, or ErrBusy or ErrClosed.
func (i *Instance) Call(f Func, in []byte, budget Fuel) (Result, error) {
	return i.call(f, in, 0, budget)
}

// CallNumber calls an export that takes a number.
func (i *Instance) CallNumber(f Func, n uint32, budget Fuel) (Result, error) {
	return i.call(f, nil, n, budget)
}

func (i *Instance) call(f Func, in []byte, n uint32, budget Fuel) (Result, error) {
	if !i.state.CompareAndSwap(idle, busy) {
		if i.state.Load() == closed {
			return Result{}, ErrClosed
		}
		return Result{}, ErrBusy
	}
	defer i.end()
	if first := i.failed.Load(); first != nil {
		return Result{}, &Failure{Digest: i.shared.digest, Export: f.String(), Kind: Dead, At: -1, Err: first}
	}
	return i.run(f, in, n, budget)
}

func (i *Instance) end() {
	if !i.state.CompareAndSwap(busy, idle) {
		i.free()
	}
}

func (i *Instance) run(f Func, in []byte, n uint32, budget Fuel) (Result, error) {
	start := time.Now()
	fn, err := i.function(f)
	if err != nil {
		return Result{}, i.broken(f.String(), Refused, 0, start, err)
	}
	i.begin(budget, start)
	if len(in) > 0 {
		if err := i.send(in, budget, start); err != nil {
			return Result{}, err
		}
		n = uint32(len(in))
		if fn, err = i.function(f); err != nil { // the input's stack may have been the last straw
			return Result{}, i.broken(f.String(), Refused, 0, start, err)
		}
	}
	i.stack[0] = uint64(n)
	err = fn.CallWithStack(i.ctx, i.stack[:])
	i.settle(fn)
	i.guest.end()
	if err != nil {
		return Result{}, i.fail(f.String(), budget, start, err)
	}
	r := Result{Fuel: i.used(budget)}
	switch d := &funcs[f]; d.gives {
	case answerStatus:
		r.Status = uint32(i.stack[0])
	case answerPacked:
		r.Packed = i.stack[0]
	case answerNumber:
		r.Packed = uint64(uint32(i.stack[0]))
	default:
		if i.stack[0] == 0 {
			r.Status = 1
		}
		if r.Out, err = i.take(i.stack[0], d.most); err != nil {
			return Result{}, i.broken(f.String(), BadAnswer, r.Fuel, start, err)
		}
	}
	r.Took = time.Since(start)
	return r, nil
}

// function looks an export up at its first use, since looking up allocates.
func (i *Instance) function(f Func) (*handle, error) {
	if f >= numFuncs {
		return nil, errors.New("the ABI has no such function")
	}
	return i.find(&i.funcs[f], f.String())
}

func (i *Instance) find(h *handle, export string) (*handle, error) {
	if h.Function == nil {
		f := i.module.ExportedFunction(export)
		if f == nil {
			return nil, fmt.Errorf("it lacks the export %s", export)
		}
		*h = newHandle(f)
	}
	return h, nil
}

// send copies in to where the guest wants it.
func (i *Instance) send(in []byte, budget Fuel, start time.Time) error {
	if len(in) > MaxInput {
		return fmt.Errorf("an input of %d bytes exceeds %d", len(in), MaxInput)
	}
	input, err := i.find(&i.input, inputExport)
	if err != nil {
		return i.broken(inputExport, Refused, 0, start, err)
	}
	i.stack[0] = uint64(len(in))
	err = input.CallWithStack(i.ctx, i.stack[:])
	i.settle(input)
	if err != nil {
		return i.fail(inputExport, budget, start, err)
	}
	at := uint32(i.stack[0])
	if at == 0 || !i.module.Memory().Write(at, in) {
		err := fmt.Errorf("it gave %d as the address for %d bytes of input, which is outside of its %d bytes of memory", at, len(in), i.module.Memory().Size())
		return i.broken(inputExport, Memory, i.used(budget), start, err)
	}
	return nil
}

// take copies an answer out of the guest's memory.
func (i *Instance) take(packed uint64, most uint32) ([]byte, error) {
	at, n := uint32(packed>>32), uint32(packed)
	if n > most {
		return nil, fmt.Errorf("an answer of %d bytes exceeds %d", n, most)
	}
	view, ok := i.module.Memory().Read(at, n)
	if !ok {
		return nil, fmt.Errorf("an answer of %d bytes at %d lies outside of its %d bytes of memory", n, at, i.module.Memory().Size())
	}
	i.out = append(i.out[:0], view...)
	return i.out, nil
}

func (i *Instance) used(budget Fuel) Fuel {
	return budget - i.guest.left()
}

// fail makes a failure of a call that ended in a trap, and of that a dead instance.
func (i *Instance) fail(export string, budget Fuel, start time.Time, err error) *Failure {
	what, stack := explain(err)
	kind := Trap
	switch {
	case i.guest.exited:
		kind = Exited
		if i.guest.panic != "" {
			what = errors.New(i.guest.panic)
		}
	case i.guest.spent:
		kind, what = FuelSpent, fmt.Errorf("its budget of %d is spent", budget)
	case int64(i.depth.Get()) < 0:
		kind, what = StackSpent, errors.New("it calls itself too deep")
	case i.guest.panic != "":
		what = errors.New(i.guest.panic)
	}
	if i.memory.refused != nil {
		what = fmt.Errorf("%w: %w", what, i.memory.refused)
	}
	f := i.broken(export, kind, i.used(budget), start, what)
	f.Stack = i.shared.lines.resolve(stack, i.shared.report.Origins)
	if i.guest.panic != "" {
		f.Stack = withoutRuntime(f.Stack)
	}
	return f
}

func (i *Instance) broken(export string, kind Kind, used Fuel, start time.Time, err error) *Failure {
	f := &Failure{Digest: i.shared.digest, Export: export, Kind: kind, At: i.at(), Fuel: used, Took: time.Since(start), Err: err}
	i.failed.Store(f)
	return f
}

// Close frees the instance's memory; if it is in a call, when that ends.
func (i *Instance) Close() {
	for {
		switch s := i.state.Load(); s {
		case idle:
			if i.state.CompareAndSwap(idle, closed) {
				i.free()
				return
			}
		case busy:
			if i.state.CompareAndSwap(busy, closing) {
				return
			}
		default:
			return
		}
	}
}

func (i *Instance) free() {
	i.state.Store(closed)
	if i.module != nil {
		_ = i.module.Close(i.ctx)
	}
	i.memory.Free()
	i.memory.room.add(-i.stacks)
	i.stacks = 0
	i.memory.room.leave(i)
	if i.release != nil {
		i.release()
	}
}
