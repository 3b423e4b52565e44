package abi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/abi"
)

// What a guest counts becomes a label of a metric: its names are few and plain.
func TestCountersAreFewAndPlainlyNamed(t *testing.T) {
	t.Parallel()
	many := make([]abi.Counter, abi.MaxCounters+1)
	for i := range many {
		many[i].Name = fmt.Sprint("c", i)
	}
	named := func(names ...string) (list []abi.Counter) {
		for _, name := range names {
			list = append(list, abi.Counter{Name: name, Help: "Help."})
		}
		return list
	}
	for _, tt := range []struct {
		name     string
		counters []abi.Counter
		err      string
	}{
		{"as many as there may be", many[:abi.MaxCounters], ""},
		{"one too many", many, "33 counters, at most 32"},
		{"letters, digits and lines", named("a", "rows_2_see"), ""},
		{"no name", named(""), `counter ""`},
		{"a digit first", named("2rows"), "begins with a letter"},
		{"a line first", named("_rows"), "begins with a letter"},
		{"capitals", named("Rows"), "begins with a letter"},
		{"what would end a label", named("a\"}\n"), "begins with a letter"},
		{"more than a name may have", named(strings.Repeat("a", abi.MaxName+1)), "1 to 63"},
		{"one twice", named("a", "a"), "stands once"},
		{"endless help", []abi.Counter{{Name: "a", Help: strings.Repeat("h", abi.MaxReason+1)}}, "its help has more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, err := json.Marshal(map[string]any{
				"abi": 1, "module": "m", "counters": tt.counters,
				"policies": []any{map[string]any{"name": "P", "kind": "predicate"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = abi.ReadManifest(b)
			check(t, err, tt.err)
		})
	}
}

func TestAModuleWithoutPoliciesLearnsHowToRegisterOne(t *testing.T) {
	t.Parallel()
	_, err := abi.ReadManifest([]byte(`{"abi":1,"module":"m","version":"1","policies":[]}`))
	if err == nil || !strings.Contains(err.Error(), "registers no policy; in Go, init calls sdk.Predicate") {
		t.Errorf("ReadManifest = %v", err)
	}
}
