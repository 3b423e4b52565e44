package engine

import (
	"runtime"
	"testing"

	w "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// TestStacksDoNotAddUp has a guest call itself deep in each of its exports, over
// and over: the host keeps the stack of one.
func TestStacksDoNotAddUp(t *testing.T) {
	const kept, deep, most = 300, 600, 8 << 20 // locals, calls, bytes
	all := []Func{FuncScore, FuncWhatIf, FuncExplain, FuncGate, FuncReconcile, FuncReasons, FuncPod, FuncApply, FuncFilter, FuncIdle, FuncError}
	p := w.Policy()
	depth := p.Global(0)
	dive := p.Func("x", w.Sig(nil), nil) + 1
	code := [][]byte{w.GlobalGet(depth), w.Op(0x50, 0x04, w.Void, 0x0f, 0x0b), w.GlobalGet(depth), w.I64Const(1), w.Op(0x7d), w.GlobalSet(depth)}
	locals := make([]byte, kept)
	for i := range uint32(kept) {
		locals[i] = w.I64
		code = append(code, w.GlobalGet(p.Global(int64(i))), w.Set(i))
	}
	code = append(code, w.Call(dive))
	for i := range uint32(kept) {
		code = append(code, w.Get(i), w.GlobalSet(depth+1+i))
	}
	p.Func("dive", w.Sig(nil), locals, append(code, w.I64Const(0), w.GlobalSet(depth))...)
	for _, f := range all {
		d := funcs[f]
		takes, gives := []byte{w.I32}, byte(w.I64)
		if d.takes == takesNothing {
			takes = nil
		}
		if d.gives == answerStatus {
			gives = w.I32
		}
		zero := w.I64Const(0)
		if gives == w.I32 {
			zero = w.I32Const(0)
		}
		p.Drop(f.String()).Export(f.String(), w.Sig(takes, gives), nil, w.I64Const(deep), w.GlobalSet(depth), w.Call(dive), zero)
	}
	i := openModule(t, load(t, newEngine(t), p.Bytes()), OpenConfig{})
	before, guests := heap(), GuestBytes()
	for range 3 {
		for _, f := range all {
			if _, err := i.Call(f, []byte{1}, MaxBudget); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := heap() - before; got > most {
		t.Errorf("after a deep call of each export the instance holds %d bytes of stack, want %d at most", got, most)
	}
	if got := GuestBytes() - guests; got < 1<<20 || got > most {
		t.Errorf("guests are said to hold %d bytes more, want what its one stack takes", got)
	}
	i.Close()
	if got := GuestBytes(); got > guests {
		t.Errorf("guests are said to hold %d bytes more than before, though it is closed", got-guests)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
