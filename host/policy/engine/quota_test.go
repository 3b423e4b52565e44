package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	w "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// eater is a module that has so many pages, and whose berth_filter takes as many
// more as it is asked about bytes. It traps where it gets none.
func eater(pages uint32) []byte {
	p := w.Policy()
	p.Memory = &[2]uint32{pages, 1024}
	p.Export("berth_filter", filterType, nil,
		w.Get(0), w.Op(0x40, 0), w.I32Const(-1), w.Op(0x46), w.If(w.Void, w.Op(0)), w.I64Const(w.InputAt<<32|4))
	return p.Bytes()
}

func boundEngine(t *testing.T, pages int64) *Engine {
	t.Helper()
	e, err := New(context.Background(), Config{CacheDir: t.TempDir(), GuestMemory: pages << 16})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func grow(i *Instance, pages int) error {
	_, err := i.Call(FuncFilter, make([]byte, pages), 1<<40)
	return err
}

func TestGuestsTogetherHaveNoMoreThanTheBound(t *testing.T) {
	t.Parallel()
	e := boundEngine(t, 400) // 300 without the part of RankFirst
	m := load(t, e, eater(100))
	other, greedy := openModule(t, m, OpenConfig{}), openModule(t, m, OpenConfig{})
	if err := grow(greedy, 60); err != nil {
		t.Fatalf("growing within the bound: %v", err)
	}
	err := grow(greedy, 60)
	var full *MemoryQuotaError
	var failure *Failure
	if !errors.As(err, &full) || !errors.As(err, &failure) || failure.Kind != Trap || full.Needs != 220<<16 {
		t.Fatalf("growing beyond the bound: %v", err)
	}
	for _, want := range []string{"no room for 13.8 MiB", "the 18.8 MiB", "--guest-memory", "spec.mode: Off"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if _, err := m.Open(context.Background(), OpenConfig{}); !errors.As(err, &full) {
		t.Errorf("an instance beyond the bound: %v", err)
	}
	if err := grow(other, 1); err != nil {
		t.Errorf("the other instance: %v", err)
	}
	greedy.Close()
	openModule(t, m, OpenConfig{}).Close()
	other.Close()
	if have := e.quota.have.Load(); have != 0 || len(e.quota.instances) != 0 {
		t.Errorf("%d bytes and %d instances are left over", have, len(e.quota.instances))
	}
}

func TestMemoryIsGivenUpByRank(t *testing.T) {
	t.Parallel()
	m := load(t, boundEngine(t, 448), eater(100)) // 336 without the part of RankFirst; stacks need a little
	open := func(r MemoryPriority) *Instance { return openModule(t, m, OpenConfig{MemoryPriority: r}) }
	alive := func(i *Instance) bool { return i.MemoryBytes() > 0 }
	common, trial, spare := open(PriorityCommon), open(PriorityTrial), open(PrioritySpare)

	if _, err := m.Open(context.Background(), OpenConfig{MemoryPriority: PrioritySpare}); err == nil || !alive(spare) {
		t.Errorf("a spare one is opened in a full room: %v", err)
	}
	first := open(PriorityFirst)
	if !alive(spare) {
		t.Error("the part of RankFirst was not used first")
	}
	if err := grow(common, 30); err != nil || alive(spare) || !alive(trial) {
		t.Errorf("the spare one did not give way to who decides: %v", err)
	}
	if err := grow(spare, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("who gave way says %v", err)
	}
	trial.SetMemoryPriority(PriorityCommon)
	if err := grow(common, 30); err == nil || !alive(trial) {
		t.Errorf("one gave way to its like: %v", err)
	}
	trial.SetMemoryPriority(PriorityTrial)
	if err := grow(first, 200); err != nil || alive(trial) || !alive(common) {
		t.Errorf("the one on trial did not give way first: %v", err)
	}
	if err := grow(first, 60); err != nil || alive(common) {
		t.Errorf("nobody gave way to RankFirst: %v", err)
	}
	if err := grow(first, 200); err == nil {
		t.Error("even RankFirst may not exceed the bound")
	}
}
