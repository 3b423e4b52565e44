package engine

import (
	"slices"
	"testing"
)

func TestLinesAreLookedUpByTheCodeBefore(t *testing.T) {
	t.Parallel()
	table, err := readLines([]byte(`{"files":["p/main.go"],"names":["inner","outer",""],
		"rows":[{"a":10,"p":[[0,0,3],[1,0,7]]},{"a":20,"p":[[2,0,9],[1,0,0]]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at   int
		want []string
	}{
		{9, nil}, {10, []string{"inner (p/main.go:3)", "outer (p/main.go:7)"}},
		{19, []string{"inner (p/main.go:3)", "outer (p/main.go:7)"}}, {25, []string{"p/main.go:9"}},
	} {
		if got := table.at(tt.at); !slices.Equal(got, tt.want) {
			t.Errorf("at(%d) = %q, want %q", tt.at, got, tt.want)
		}
	}
	stack := table.resolve([]frame{{"a()", 20}, {"b()", -1}, {"c()", 1}})
	if want := []string{"p/main.go:9", "b()", "c()"}; !slices.Equal(stack, want) {
		t.Errorf("resolve = %q, want %q", stack, want)
	}
}

// FuzzReadLines reads what a child left, which a hostile module may have made.
func FuzzReadLines(f *testing.F) {
	f.Add([]byte(`{"files":["a"],"names":["b"],"rows":[{"a":1,"p":[[0,0,3]]}]}`))
	f.Add([]byte(`{"rows":[{"a":2,"p":[[0,1,3]]},{"a":1}]}`))
	f.Add([]byte(`{"files":[""],"names":[""],"rows":[{"a":-1,"p":[[0,0,-3]]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := readLines(data)
		if err != nil {
			return
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
		table, err := decodeLines(wasm)
		if err == nil && len(table.Rows) > maxRows {
			t.Errorf("%d rows", len(table.Rows))
		}
	})
}
