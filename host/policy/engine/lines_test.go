package engine

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

func TestLinesAreLookedUpByTheCodeBefore(t *testing.T) {
	t.Parallel()
	found := foundLines{
		strings: []string{"", "p/main.go", "inner", "outer"},
		rows: []foundRow{
			{10, []place{{2, 1, 3}, {3, 1, 7}}},
			{20, []place{{0, 1, 9}, {3, 0, 0}}},
			{30, nil},
			{35, []place{{2, 1, 0}, {3, 1, 7}}},
			{37, []place{{2, 0, 0}, {0, 1, 0}, {3, 1, 0}}},
			{40, slices.Repeat([]place{{3, 1, 1}}, maxInlined+1)},
		},
	}
	table, err := readLines(found.table())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at   int
		want []string
	}{
		{9, nil}, {10, []string{"inner (p/main.go:3)", "outer (p/main.go:7)"}},
		{19, []string{"inner (p/main.go:3)", "outer (p/main.go:7)"}}, {25, []string{"p/main.go:9"}},
		{30, nil}, {35, []string{"inner (p/main.go)", "outer (p/main.go:7)"}}, {37, []string{"outer (p/main.go)"}}, {1 << 30, slices.Repeat([]string{"outer (p/main.go:1)"}, maxInlined)},
	} {
		if got := table.at(tt.at); !slices.Equal(got, tt.want) {
			t.Errorf("at(%d) = %q, want %q", tt.at, got, tt.want)
		}
	}
	origins := vet.Origins("\x64\x00\x00\x00\x15\x00\x00\x00\xc8\x00\x00\x00\x02\x00\x00\x00") // 100 was 20, 200 was 1
	stack := table.resolve([]frame{{"a()", 100}, {"b()", -1}, {"c()", 200}}, origins)
	if want := []string{"p/main.go:9", "b()", "c()"}; !slices.Equal(stack, want) {
		t.Errorf("resolve = %q, want %q", stack, want)
	}
}

// TestALongNameIsNotCopied has names of 8 MiB in each frame of a stack: whoever
// traps must not have the host copy them a thousand times.
func TestALongNameIsNotCopied(t *testing.T) {
	long := strings.Repeat("x", 8<<20)
	found := foundLines{
		strings: []string{long, long},
		rows:    []foundRow{{1, slices.Repeat([]place{{0, 1, 1}}, maxInlined)}},
	}
	table, err := readLines(found.table())
	check(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stack := table.resolve(slices.Repeat([]frame{{"f()", 5}}, maxFrames), vet.Origins("\x05\x00\x00\x00\x03\x00\x00\x00"))
	runtime.ReadMemStats(&after)
	if len(stack) != maxFrames || len(stack[0]) != maxFrameBytes {
		t.Errorf("the stack is of %d frames, the first of %d bytes", len(stack), len(stack[0]))
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("it took %d bytes of memory", took)
	}
	r := dwarfReader{found: &foundLines{}, known: map[string]int{}}
	if r.intern(long); len(r.found.strings[0]) != maxFrameBytes {
		t.Errorf("the child keeps a name of %d bytes", len(r.found.strings[0]))
	}
}

// TestAFirstTrapReadsNoLineTable has a module of 100,000 instructions that may
// trap: what the compiler's library knows of them it would come to know in the
// midst of the first call that does, and keep.
func TestAFirstTrapReadsNoLineTable(t *testing.T) {
	m := wasmtest.Policy()
	m.Func("much", wasmtest.Sig(nil), nil, wasmtest.Times(100_000, wasmtest.Op(0x3f, 0, 0x1a)))
	m.Export("berth_idle", wasmtest.Sig(nil, wasmtest.I32), nil, wasmtest.Op(0))
	m.Raw = [][]byte{wasmtest.Section(0, append(wasmtest.Name(".debug_line"), 0))}
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
	var failure *Failure
	if !errors.As(err, &failure) || failure.Kind != Trap {
		t.Fatalf("it ends with %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("the first trap took %d bytes of memory", took)
	}
}

// FuzzReadLines reads what a child left, which a hostile module may have made.
func FuzzReadLines(f *testing.F) {
	f.Add((&foundLines{}).table())
	f.Add((&foundLines{strings: []string{"a", "b"}, rows: []foundRow{{1, []place{{0, 1, 3}}}, {2, nil}}}).table())
	f.Add((&foundLines{rows: []foundRow{{2, []place{{0, 1, 3}}}, {-1, slices.Repeat([]place{{-1, 7, 1}}, 20)}}}).table())
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := readLines(data)
		if err != nil {
			return
		}
		if len(table.rows)+len(table.places)+len(table.ends)+len(table.strings) != len(data)-lineHead {
			t.Error("the table is another than what was left")
		}
		for at := -1; at < 4; at++ {
			if n := len(table.at(at)); n > maxInlined {
				t.Errorf("%d places of one instruction", n)
			}
		}
	})
}

// FuzzDecodeLines reads foreign debug information, as the child does.
func FuzzDecodeLines(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x0d\x0b.debug_line\x00"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x7f"))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		found, err := decodeLines(wasm)
		if err != nil {
			return
		}
		if len(found.rows) > maxLineRows {
			t.Errorf("%d rows", len(found.rows))
		}
		table, err := readLines(found.table())
		if err != nil {
			t.Fatalf("the host does not read what its child writes: %v", err)
		}
		for i, r := range found.rows {
			if i+1 < len(found.rows) && found.rows[i+1].at == r.at {
				continue // the later one is found
			}
			want := 0
			for _, p := range r.places {
				if p.line > 0 || want == 0 && p.name != 0 && p.file != 0 {
					want++
				}
			}
			if n := len(table.at(r.at)); n != want {
				t.Errorf("%d places at %d, want %d", n, r.at, want)
			}
		}
	})
}
