package engine_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/vet"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// containment is how much CPU time any module may take from its upload to its
// end, of this process and of its compile child. With the race detector the slowest
// took 5.04 s on a slow machine.
const containment = 10 * time.Second

func corpus() []attack {
	var all []attack
	for _, part := range [][]hostile{spinning(), calling(), hungry(), chatty(), lying(), bombs(), forged()} {
		for _, h := range part {
			all = append(all, attack{h, engine.FuncFilter})
		}
	}
	return slices.Concat(all, everywhere(), byKind(), elsewhere(), between())
}

// attempt takes a module from its bytes to its end.
func attempt(e *engine.Engine, h attack) (outcome, *engine.Failure) {
	ctx := context.Background()
	m, err := e.Load(ctx, h.build(), vet.Limits{})
	var refusal *vet.Refusal
	var failure *engine.Failure
	switch {
	case errors.As(err, &refusal):
		return byVet, nil
	case errors.Is(err, engine.ErrCompile):
		return byCompiler, nil
	case errors.As(err, &failure):
		return atLoad, failure
	case err != nil:
		return outcome(err.Error()), nil
	}
	defer m.Close()
	i, err := m.Open(ctx, engine.OpenConfig{})
	if err != nil {
		return outcome(err.Error()), nil
	}
	defer i.Close()
	budget := engine.Most(engine.MaxBudget, i.MemoryBytes())
	switch h.f {
	case engine.FuncApply:
		budget = engine.ApplyBudget(128, 64<<10, i.MemoryBytes(), 1000)
	case engine.FuncIdle:
		budget = engine.IdleBudget(i.MemoryBytes(), 1000)
	}
	for range h.calls {
		before := cpu()
		_, err := i.Call(h.f, []byte{1, 0, 0, 0}, budget)
		if errors.As(err, &failure) {
			failure.Took = cpu() - before
			return ends(failure.Kind), failure
		}
		if err != nil {
			return outcome(err.Error()), nil
		}
	}
	return answers, nil
}

// goodCall is what an honest call may take with the race detector on a busy
// machine: a million of them are no harm.
const goodCall = 10 * time.Microsecond

func TestTheCorpusHolds(t *testing.T) {
	e := open(t)
	all := corpus()
	if len(all) < 60 {
		t.Fatalf("the corpus has %d modules, want 60 at least", len(all))
	}
	stop := serve(t, e)
	var slowest time.Duration
	for _, h := range all {
		t.Run(h.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			most := containment + time.Duration(h.calls)*goodCall
			start := cpu() + children()
			got, failure := attempt(e, h)
			if took := cpu() + children() - start; took > most {
				t.Errorf("it took %v from upload to end, want %v at most", took, most)
			} else if took > containment/10 {
				t.Logf("it took %v from upload to end", took)
			}
			if h.want != "" && got != h.want {
				t.Errorf("it %s, want it %s (%+v)", got, h.want, failure)
			}
			if failure == nil || got == atLoad {
				return
			}
			if failure.Took > 10*time.Millisecond {
				t.Logf("%s: its budget lasted %v", h.name, failure.Took)
			}
			if h.f == engine.FuncIdle || h.f == engine.FuncApply {
				return // on a larger budget
			}
			slowest = max(slowest, failure.Took)
		})
	}
	t.Logf("%d modules; no call lasted longer than %v on a budget of 5 ms", len(all), slowest)
	if gap := stop(); gap > time.Minute { // by the clock, which a busy machine stretches
		t.Errorf("the process stood still for %v", gap)
	}
}

// serve keeps an honest guest answering and the garbage collector and timers
// going, until its result is called, which tells the longest standstill.
func serve(t *testing.T, e *engine.Engine) func() time.Duration {
	m, err := e.Load(context.Background(), policy(func(m *Module) {
		m.Export("berth_filter", givesI64, nil, I32Const(InputAt), I32Const(InputAt), Load32(0), I32Const(1), Op(0x6a), Store32(0), I64Const(InputAt<<32|4))
	})(), vet.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.Open(context.Background(), engine.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var group sync.WaitGroup
	var longest time.Duration
	group.Go(func() {
		last := time.Now()
		for n := byte(0); ; n++ {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			r, err := i.Call(engine.FuncFilter, []byte{n % 128, 0, 0, 0}, engine.Most(engine.MaxBudget, i.MemoryBytes()))
			if err != nil || len(r.Out) != 4 || r.Out[0] != n%128+1 {
				t.Errorf("the honest guest answers %v, %v", r, err)
			}
			if n%16 == 0 {
				runtime.GC()
			}
			longest = max(longest, time.Since(last))
			last = time.Now()
		}
	})
	return func() time.Duration {
		close(done)
		group.Wait()
		i.Close()
		m.Close()
		return longest
	}
}

func open(tb testing.TB) *engine.Engine {
	tb.Helper()
	return openOn(tb, tb.TempDir())
}

func openOn(tb testing.TB, cache string) *engine.Engine {
	tb.Helper()
	e, err := engine.New(context.Background(), engine.Config{CacheDir: cache})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// cpu is the time that this thread has run: a busy machine does not add to it.
func cpu() time.Duration {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

// children is the time that the compile children took.
func children() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
