package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/vet"
	w "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

var filterType = w.Sig([]byte{w.I32}, w.I64)

func openModule(tb testing.TB, m *Module, c OpenConfig) *Instance {
	tb.Helper()
	i, err := m.Open(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(i.Close)
	return i
}

// TestExportsAreThoseOfTheABI holds this room's names to the contract's, which
// vet may not import.
func TestExportsAreThoseOfTheABI(t *testing.T) {
	t.Parallel()
	want := map[Func]string{
		FuncManifest: abi.FuncManifest, FuncOpen: abi.FuncOpen, FuncApply: abi.FuncApply, FuncPod: abi.FuncPod,
		FuncFilter: abi.FuncFilter, FuncScore: abi.FuncScore, FuncWhatIf: abi.FuncWhatIf, FuncReasons: abi.FuncReasons,
		FuncExplain: abi.FuncExplain, FuncGate: abi.FuncGate, FuncIdle: abi.FuncIdle, FuncError: abi.FuncError,
		FuncReconcile: abi.FuncReconcile, FuncAt: abi.FuncAt, FuncDepends: abi.FuncDepends,
	}
	for f := range numFuncs {
		if f.String() != want[f] {
			t.Errorf("function %d is %s, want %s", f, f, want[f])
		}
	}
	if MaxInput != abi.MaxInput || maxAnswer != abi.MaxAnswer || maxManifest != abi.MaxManifest || maxText != abi.MaxText {
		t.Error("the limits differ from the ABI's")
	}
	if _, ok := vet.Imports[abi.ImportModule][abi.ImportLog]; !ok {
		t.Error("vet does not let the ABI's import through")
	}
}

func TestAFailedInstanceIsDead(t *testing.T) {
	t.Parallel()
	p := w.Policy()
	inner := p.Func("inner", w.Sig(nil), nil, w.Op(0))
	p.Export("berth_filter", filterType, nil, w.Call(inner), w.I64Const(0))
	p.Export("berth_score", filterType, nil, w.I64Const(0))
	m := load(t, newEngine(t), p.Bytes())
	i := openModule(t, m, OpenConfig{})
	if _, err := i.Call(FuncScore, nil, MaxBudget); err != nil {
		t.Fatal(err)
	}
	_, err := i.Call(FuncFilter, nil, MaxBudget)
	var f *Failure
	if !errors.As(err, &f) || f.Kind != Trap || f.Export != "berth_filter" || f.Digest != m.Digest() || f.Fuel <= 0 {
		t.Fatalf("Call = %+v, want a trap", err)
	}
	if len(f.Stack) != 2 || !strings.HasPrefix(f.Stack[0], "inner(") || !strings.HasPrefix(f.Stack[1], "berth_filter(") {
		t.Errorf("its stack is %q, want inner in berth_filter", f.Stack)
	}
	if !strings.Contains(f.Error(), "unreachable") || !strings.Contains(fmt.Sprintf("%+v", f), "\n\tberth_filter(") {
		t.Errorf("it says %+v", f)
	}
	var again *Failure
	if _, err := i.Call(FuncScore, nil, MaxBudget); !errors.As(err, &again) || again.Kind != Dead || !errors.Is(err, f) {
		t.Errorf("a call after a failure = %v, want it dead of the first", err)
	}
	if i.Failure() != f {
		t.Errorf("Failure = %v, want the first", i.Failure())
	}
	if _, err := openModule(t, m, OpenConfig{}).Call(FuncScore, nil, MaxBudget); err != nil {
		t.Errorf("another instance = %v, want it untouched", err)
	}
}

// What a compiler's runtime prints of a panic says more than the trap that follows.
func TestAFailureSaysWhatPanicked(t *testing.T) {
	t.Parallel()
	const text = "panic: assignment to entry in nil map\n"
	p := w.Policy(w.Import{From: "wasi_snapshot_preview1", Name: "fd_write", Type: w.Sig([]byte{w.I32, w.I32, w.I32, w.I32}, w.I32)})
	p.Data(2048, []byte(text))
	inner := p.Func("runtime._panic", w.Sig(nil), nil,
		w.I32Const(1024), w.I32Const(2048), w.Store32(0), w.I32Const(1024), w.I32Const(int32(len(text))), w.Store32(4),
		w.I32Const(1), w.I32Const(1024), w.I32Const(1), w.I32Const(1040), w.Call(0), w.Op(0x1a), w.Op(0))
	p.Export("berth_filter", filterType, nil, w.Call(inner), w.I64Const(0))
	var said []string
	i := openModule(t, load(t, newEngine(t), p.Bytes()), OpenConfig{Log: func(level slog.Level, line string) {
		said = append(said, level.String()+" "+line)
	}})
	_, err := i.Call(FuncFilter, nil, MaxBudget)
	var f *Failure
	if !errors.As(err, &f) || f.Kind != Trap || f.Err.Error() != "panic: assignment to entry in nil map" {
		t.Fatalf("Call = %+v, want what it printed", err)
	}
	if len(f.Stack) != 1 || !strings.HasPrefix(f.Stack[0], "berth_filter(") {
		t.Errorf("its stack is %q, want it without the runtime's functions", f.Stack)
	}
	if want := []string{"ERROR panic: assignment to entry in nil map"}; !slices.Equal(said, want) {
		t.Errorf("its log is %q, want %q", said, want)
	}
}

// The meter is no function of the guest's.
func TestABudgetsEndNamesTheGuestsFunction(t *testing.T) {
	t.Parallel()
	p := w.Policy()
	spin := p.Func("main.spin", w.Sig(nil), nil, w.Forever())
	p.Export("berth_filter", filterType, nil, w.Call(spin), w.I64Const(0))
	_, err := openModule(t, load(t, newEngine(t), p.Bytes()), OpenConfig{}).Call(FuncFilter, nil, MaxBudget)
	var f *Failure
	if !errors.As(err, &f) || f.Kind != FuelSpent {
		t.Fatalf("Call = %v, want its fuel spent", err)
	}
	if len(f.Stack) != 2 || !strings.HasPrefix(f.Stack[0], "main.spin(") || !strings.HasPrefix(f.Stack[1], "berth_filter(") {
		t.Errorf("its stack is %q, want its own functions", f.Stack)
	}
	if text := err.Error(); !strings.HasSuffix(text, "is spent in main.spin()") {
		t.Errorf("the failure reads %s", text)
	}
}

func TestOneCallAtATime(t *testing.T) {
	t.Parallel()
	p := w.Policy(w.Import{From: "berth", Name: "log", Type: w.Sig([]byte{w.I32, w.I32, w.I32})})
	p.Export("berth_filter", filterType, nil, w.I32Const(1), w.I32Const(w.ManifestAt), w.I32Const(4), w.Call(0), w.I64Const(0))
	m := load(t, newEngine(t), p.Bytes())
	inside, leave := make(chan struct{}), make(chan struct{})
	i := openModule(t, m, OpenConfig{Log: func(slog.Level, string) { close(inside); <-leave }})
	done := make(chan error)
	go func() {
		_, err := i.Call(FuncFilter, nil, MaxBudget)
		done <- err
	}()
	<-inside
	if _, err := i.Call(FuncFilter, nil, MaxBudget); !errors.Is(err, ErrBusy) {
		t.Errorf("a second call = %v, want %v", err, ErrBusy)
	}
	i.Close() // waits for the call
	close(leave)
	if err := <-done; err != nil {
		t.Errorf("a call during which the instance was closed = %v", err)
	}
	if _, err := i.Call(FuncFilter, nil, MaxBudget); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after = %v, want %v", err, ErrClosed)
	}
	if i.MemoryBytes() != 0 || i.memory.all != nil {
		t.Error("a closed instance holds memory")
	}
}

func TestLogsAreLimited(t *testing.T) {
	t.Parallel()
	logType := w.Sig([]byte{w.I32, w.I32, w.I32})
	p := w.Policy(w.Import{From: "berth", Name: "log", Type: logType})
	p.Data(8192, []byte("a\xff\x1b[2J"))
	p.Export("berth_filter", filterType, nil, w.Times(40, w.I32Const(2), w.I32Const(8192), w.I32Const(6), w.Call(0)), w.I64Const(0))
	p.Export("berth_score", filterType, nil, w.I32Const(3), w.I32Const(w.ManifestAt), w.I32Const(60000), w.Call(0), w.I64Const(0))
	m := load(t, newEngine(t), p.Bytes())
	var lines []string
	var levels []slog.Level
	i := openModule(t, m, OpenConfig{Log: func(l slog.Level, s string) { lines, levels = append(lines, s), append(levels, l) }})
	if _, err := i.Call(FuncFilter, nil, MaxBudget); err != nil {
		t.Fatal(err)
	}
	if len(lines) != linesPerCall+1 || lines[0] != "a??[2J" || levels[0] != slog.LevelWarn {
		t.Errorf("%d lines were logged, the first %q at %v; want %d, nothing in it that steers a terminal, at WARN", len(lines), lines[0], levels[0], linesPerCall+1)
	}
	if last := lines[len(lines)-1]; last != "24 lines dropped: the guest says too much" {
		t.Errorf("the last line is %q", last)
	}
	if _, err := i.Call(FuncScore, nil, MaxBudget); err != nil {
		t.Fatal(err)
	}
	last := len(lines) - 1
	if end := fmt.Sprintf(" (cut: %d bytes more)", 60000-maxLine); len(lines[last]) != maxLine+len(end) || !strings.HasSuffix(lines[last], end) || levels[last] != slog.LevelError {
		t.Errorf("then %q at %v", lines[last], levels[last])
	}
}

func TestWASIIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	three := w.Sig([]byte{w.I32, w.I64, w.I32}, w.I32)
	p := w.Policy(
		w.Import{From: vet.ModuleWASI, Name: "clock_time_get", Type: three},
		w.Import{From: vet.ModuleWASI, Name: "random_get", Type: w.Sig([]byte{w.I32, w.I32}, w.I32)},
		w.Import{From: vet.ModuleWASI, Name: "args_sizes_get", Type: w.Sig([]byte{w.I32, w.I32}, w.I32)},
		w.Import{From: vet.ModuleWASI, Name: "path_open", Type: w.Sig([]byte{w.I32, w.I32, w.I32, w.I32, w.I32, w.I64, w.I64, w.I32, w.I32}, w.I32)},
	)
	p.Export("berth_filter", filterType, nil,
		w.I32Const(1), w.I64Const(0), w.I32Const(w.InputAt), w.Call(0), w.Op(0x1a),
		w.I32Const(w.InputAt+8), w.I32Const(8), w.Call(1), w.Op(0x1a),
		w.I32Const(w.InputAt+16), w.I32Const(w.InputAt+20), w.Call(2), w.Op(0x1a),
		w.I32Const(w.InputAt+24), w.Times(5, w.I32Const(3)), w.I64Const(0), w.I64Const(0), w.I32Const(0), w.I32Const(0), w.Call(3), w.Store32(0),
		w.I64Const(w.InputAt<<32|28))
	m := load(t, newEngine(t), p.Bytes())
	var first []byte
	for n := range 3 {
		i := openModule(t, m, OpenConfig{})
		r, err := i.Call(FuncFilter, nil, MaxBudget)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = bytes.Clone(r.Out)
		}
		if string(r.Out) != string(first) {
			t.Errorf("instance %d saw %x, the first %x", n, r.Out, first)
		}
		if r.Out[24] != errnoNosys {
			t.Errorf("path_open = %d, want %d", r.Out[24], errnoNosys)
		}
		before := string(r.Out[:16])
		if r, err = i.Call(FuncFilter, nil, MaxBudget); err != nil || string(r.Out[:16]) == before {
			t.Errorf("time and randomness stand still within an instance: %x, %v", r.Out, err)
		}
	}
}

func TestACallDoesNotAllocate(t *testing.T) {
	if enginetest.Race {
		return // the detector allocates
	}
	p := w.Policy()
	p.Export("berth_filter", filterType, nil, w.I64Const(w.InputAt<<32|64))
	i := openModule(t, load(t, newEngine(t), p.Bytes()), OpenConfig{})
	in := make([]byte, 64)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := i.Call(FuncFilter, in, MaxBudget); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a call allocates %v times, want 0", n)
	}
}

func TestMemoryComesBack(t *testing.T) {
	p := w.Policy()
	p.Memory = &[2]uint32{256, 1024} // 16 MiB
	m := load(t, newEngine(t), p.Bytes())
	before, counted := resident(t), GuestBytes()
	for range 50 {
		i, err := m.Open(context.Background(), OpenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if have := GuestBytes() - counted; have != 16<<20 {
			t.Errorf("an instance of 16 MiB counts as %d bytes", have)
		}
		i.Close()
		i.Close()
	}
	if left := GuestBytes() - counted; left != 0 {
		t.Errorf("closed instances count as %d bytes", left)
	}
	if grown := resident(t) - before; grown > 100<<20 {
		t.Errorf("50 instances of 16 MiB left %d MiB", grown>>20)
	}
}

func resident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	if got := ForTime(5 * time.Millisecond); got != MaxBudget {
		t.Errorf("ForTime(5ms) = %d, want %d", got, MaxBudget)
	}
	if small, large := Budget(10, 100, mib, 0), Budget(1<<20, 1<<20, mib, 0); small >= large || large != MaxBudget {
		t.Errorf("Budget of a small call = %d, of a large one %d; want the latter bounded by %d", small, large, MaxBudget)
	}
	for last, size := Fuel(1<<60), uint64(mib); size <= 64*mib; size *= 2 {
		got := Most(MaxBudget, size)
		if got > last || got < MaxBudget/20 {
			t.Errorf("Most of %d MiB = %d, after %d", size/mib, got, last)
		}
		last = got
	}
	if got := Budget(10, 1000, 2<<16, 0); got <= PerMillisecond {
		t.Errorf("Budget of a guest of two pages = %d, too little to collect and to double them", got)
	}
	if odd, fair := IdleBudget(64*mib, 1000), IdleBudget(64*mib, 20_000); 8*odd > fair {
		t.Errorf("a guest of 64 MiB gets %d for 1,000 nodes and %d for 20,000, want far less where no cluster is the reason", odd, fair)
	}
	if ApplyBudget(1, 400, 16*mib, 0) <= ApplyBudget(1, 400, mib, 0) || IdleBudget(16*mib, 0) <= IdleBudget(0, 0) {
		t.Error("a larger memory gets no more to grow and to collect")
	}
	if ApplyBudget(1, 400, mib, 100_000) <= ApplyBudget(1, 400, mib, 10_000) || IdleBudget(mib, 100_000) <= IdleBudget(mib, 10_000) {
		t.Error("a larger cluster gets no more to hold it")
	}
	for size := uint64(mib); size <= 64*mib; size *= 2 {
		rows := RowsACall(size, 0)
		if rows < 100 || Budget(rows, 4*rows, size, 0) < rowBudget*Fuel(rows) {
			t.Errorf("a guest of %d MiB is asked about %d rows in a call of %d", size/mib, rows, Budget(rows, 4*rows, size, 0))
		}
	}
}

func BenchmarkCall(b *testing.B) {
	p := w.Policy()
	p.Export("berth_filter", filterType, nil, w.I64Const(w.InputAt<<32|8))
	p.Export("berth_pod", filterType, nil, w.I64Const(1))
	i := openModule(b, load(b, newEngine(b), p.Bytes()), OpenConfig{})
	in := make([]byte, 8)
	for _, bb := range []struct {
		name string
		f    Func
		in   []byte
	}{{"filter of 8 bytes", FuncFilter, in}, {"pod of nothing", FuncPod, nil}} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := i.Call(bb.f, bb.in, MaxBudget); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, g := range []struct {
		name string
		wasm []byte
	}{{"hand-written", w.Policy().Bytes()}, {"Go", goGuest(b)}} {
		b.Run(g.name+", cold", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				e := newEngine(b)
				b.StartTimer()
				load(b, e, g.wasm)
			}
		})
		b.Run(g.name+", warm", func(b *testing.B) {
			e := newEngine(b)
			load(b, e, g.wasm).Close()
			b.ResetTimer()
			for b.Loop() {
				m, err := e.Load(context.Background(), g.wasm, vet.Limits{})
				if err != nil {
					b.Fatal(err)
				}
				m.Close()
			}
		})
		b.Run(g.name+", open", func(b *testing.B) {
			m := load(b, newEngine(b), g.wasm)
			b.ResetTimer()
			for b.Loop() {
				i, err := m.Open(context.Background(), OpenConfig{})
				if err != nil {
					b.Fatal(err)
				}
				i.Close()
			}
		})
	}
}
