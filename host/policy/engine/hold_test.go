package engine_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/vet"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// TestALongCallLetsTheCollectorIn runs guests that spin, each in another kind of
// loop, and meanwhile stops all that runs, as the collector does, again and
// again: where a call does not let that happen, one of the stops takes as long as
// the call does.
func TestALongCallLetsTheCollectorIn(t *testing.T) {
	t.Parallel()
	const long = 4000 * engine.PerMillisecond
	e := open(t)
	for name, build := range map[string]func() []byte{
		"a loop":                 filter(nil, Forever()),
		"a loop within a loop":   filter(nil, Forever(Loop(Void, Get(0), BrIf(0)))),
		"a loop with a call":     policy(func(m *Module) { spinCalling(m, 0) }),
		"a loop with long calls": policy(func(m *Module) { spinCalling(m, 100) }),
		"a tree of calls":        calling()[0].build,
	} {
		m, err := e.Load(context.Background(), build(), vet.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		i, err := m.Open(context.Background(), engine.OpenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close()
		took, done := make(chan time.Duration), make(chan error)
		go func() {
			began := time.Now()
			_, err := i.Call(engine.FuncFilter, []byte{1, 0, 0, 0}, long)
			took <- time.Since(began)
			done <- err
		}()
		var call, longest time.Duration
		for call == 0 {
			began := time.Now()
			runtime.ReadMemStats(new(runtime.MemStats))
			longest = max(longest, time.Since(began))
			select {
			case call = <-took:
			case <-time.After(time.Millisecond):
			}
		}
		if longest > call*3/4 {
			t.Errorf("%s: all else stood still for %v of a call of %v", name, longest, call)
		}
		if err := <-done; err == nil {
			t.Errorf("%s: the call ended without an error", name)
		}
	}
}

// TestABudgetBoundsTime holds of the corpus that no call on the budget of one of
// 5 ms takes more than 20 ms of its thread's time. Others on the machine slow
// loads that miss the caches, so the best of some attempts counts.
func TestABudgetBoundsTime(t *testing.T) {
	const attempts = 8
	most := 20 * time.Millisecond
	if enginetest.Race {
		most *= 20 // for the imports, which are Go
	}
	e := open(t)
	n := 0
	for _, part := range [][]hostile{spinning(), calling(), hungry(), chatty()} {
		for _, h := range part {
			var took time.Duration
			for try := range attempts {
				runtime.LockOSThread()
				_, failure := attempt(e, attack{h, engine.FuncFilter})
				runtime.UnlockOSThread()
				if failure == nil || failure.Kind != engine.FuelSpent || failure.Export == "_initialize" || failure.Export == "berth_manifest" {
					break
				}
				if try == 0 {
					n++
				}
				if took = failure.Took; took <= most {
					break
				}
			}
			if took > most {
				t.Errorf("%s took %v in each of %d attempts, want %v at most", h.name, took, attempts, most)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d modules spent their budget: too few to show anything", n)
	}
}

// spinCalling makes a filter that calls for ever what takes so many turns.
func spinCalling(m *Module, work int) {
	f := m.Func("work", Sig(nil), []byte{I32}, Times(work, Get(0), I32Const(1), Op(0x6a), Set(0)))
	m.Export("berth_filter", givesI64, nil, Forever(Call(f)), I64Const(0))
}
