package engine

import (
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
	_, err = i.Call(FuncIdle, nil, MostBudget)
	runtime.ReadMemStats(&after)
	check(t, err)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("it took %d bytes of the host's memory", took)
	}
}
