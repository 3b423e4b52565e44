package engine

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// TestAReferenceInCodeIsMadeOnce has a guest make 200,000 references. wazero makes
// each anew, and keeps all of them as long as the instance lives.
func TestAReferenceInCodeIsMadeOnce(t *testing.T) {
	m := wasmtest.Policy()
	m.Export("berth_idle", wasmtest.Sig(nil, wasmtest.I32), []byte{wasmtest.I32},
		wasmtest.Count(0, 200_000, wasmtest.Op(0xd2, 0, 0x1a)), wasmtest.I32Const(0))
	e := newEngine(t)
	mod, err := e.Load(t.Context(), m.Bytes(), vet.Limits{})
	check(t, err)
	defer mod.Close()
	i, err := mod.Open(t.Context(), OpenConfig{})
	check(t, err)
	defer i.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = i.Call(FuncIdle, nil, MaxBudget)
	runtime.ReadMemStats(&after)
	check(t, err)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("it took %d bytes of the host's memory", took)
	}
}

// TestWhatTheHostKeepsForAnInstanceIsCounted has tables, segments and globals that
// come to ten times the instance's memory.
func TestWhatTheHostKeepsForAnInstanceIsCounted(t *testing.T) {
	m := wasmtest.Policy()
	m.Sizes, m.Elem = []uint32{65536, 65536}, make([]uint32, 60_000)
	for range 60_000 {
		m.Passive([]byte("x"))
	}
	for range 4000 {
		m.Global(1)
	}
	e := boundEngine(t, 400)
	mod := load(t, e, m.Bytes())
	var held []*Instance
	var full *MemoryQuotaError
	before := heapBytes()
	for !errors.As(oneMore(mod, &held), &full) {
		if len(held) > 100 {
			t.Fatal("there is room for 100 instances")
		}
	}
	took := heapBytes() - before
	counted := e.quota.have.Load() - int64(len(held))<<16
	if took > counted*5/4 || took < counted*3/4 {
		t.Errorf("%d instances took %d bytes of the host's memory, and %d were counted", len(held), took, counted)
	}
	for _, i := range held {
		i.Close()
	}
	if have := e.quota.have.Load(); have != 0 {
		t.Errorf("when all are closed, %d bytes are counted", have)
	}
}

func oneMore(m *Module, held *[]*Instance) error {
	i, err := m.Open(context.Background(), OpenConfig{})
	if err == nil {
		*held = append(*held, i)
	}
	return err
}

func heapBytes() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// TestAModuleTakesNoMoreThanIsReckoned loads modules of which wazero keeps many
// times their own size: by what is reckoned the host decides how many it keeps.
func TestAModuleTakesNoMoreThanIsReckoned(t *testing.T) {
	many := func(n int, do func(m *wasmtest.Module)) []byte {
		m := wasmtest.Policy()
		for range n {
			do(m)
		}
		return m.Bytes()
	}
	for name, wasm := range map[string][]byte{
		"locals":    many(250, func(m *wasmtest.Module) { m.FuncRaw("f", wasmtest.Sig(nil), []byte{1, 0xd0, 0x0f, wasmtest.I64, 0x0b}) }),
		"functions": many(20_000, func(m *wasmtest.Module) { m.Func("f", wasmtest.Sig(nil), nil) }),
		"segments":  many(100_000, func(m *wasmtest.Module) { m.Passive(nil) }),
	} {
		e := newEngine(t)
		before := heapBytes()
		m, err := e.Load(t.Context(), wasm, vet.Limits{})
		check(t, err)
		if took := heapBytes() - before; took > m.Bytes()*5/4 {
			t.Errorf("%s: a module of %d bytes takes %d of Go's heap, and %d are reckoned", name, len(wasm), took, m.Bytes())
		}
		m.Close()
	}
}
