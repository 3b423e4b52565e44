package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/sdk/policytest"
)

func buildC(t *testing.T) []byte { return buildForeign(t, "c-predicate") }

// buildForeign builds an example in another language by its own script.
func buildForeign(t *testing.T, example string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "policy.wasm")
	if said, err := exec.CommandContext(t.Context(), "../../../examples/"+example+"/build.sh", out).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("%s is not built: %v\n%s", example, err, said)
		}
		t.Fatalf("%v\n%s", err, said)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// The specification suffices for a guest in another language.
func TestThePolicyInCAnswersItsTable(t *testing.T) {
	t.Parallel()
	wasm := buildC(t)
	i := openGuest(t.Context(), t, wasm)
	const refused = "node is dedicated to other pods"
	team := func(name string) map[string]string { return map[string]string{"a": "b", "dedicated": name, "z": "y"} }
	policytest.RunGuest(t, policytest.Table{
		Policy: "Dedicated",
		Nodes: []policytest.Node{
			{Name: "free"}, {Name: "labelled", Labels: map[string]string{"dedicate": "red", "edicated": "red"}},
			{Name: "red", Labels: team("red")}, {Name: "re", Labels: team("re")}, {Name: "empty", Labels: team("")},
		},
		Cases: []policytest.Case{
			{
				Name: "a pod without the label",
				Want: map[string]string{"free": "", "labelled": "", "red": refused, "re": refused, "empty": refused},
			},
			{
				Name: "a pod of a team", Pod: policytest.Pod{Labels: team("red")},
				Want: map[string]string{"free": "", "labelled": "", "red": "", "re": refused, "empty": refused},
			},
			{Name: "a pod of no name", Pod: policytest.Pod{Labels: team("")}, Want: map[string]string{"red": refused, "empty": ""}},
		},
	}, func(export string, in []byte) ([]byte, uint64, error) { return callGuest(i, export, in) })
}

func TestThePolicyInCRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	wasm := buildC(t)
	for _, tt := range []struct {
		name string
		f    engine.Func
		in   []byte
		want string
	}{
		{"settings", engine.FuncOpen, []byte(`{"policy":"Dedicated","config":{"label":"team"}}`), "takes no settings"},
		{"a row that it does not know", engine.FuncFilter, binary.LittleEndian.AppendUint32(nil, 7), "was not told of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			i := openGuest(t.Context(), t, wasm)
			r, err := i.Call(tt.f, tt.in, engine.MaxBudget)
			if err == nil && r.Status == abi.StatusOK {
				t.Errorf("%s took it: %+v", tt.f, r)
			}
			if said := complaint(i); err == nil && !strings.Contains(said, tt.want) {
				t.Errorf("%s says %q, want %q", tt.f, said, tt.want)
			}
		})
	}
	manifest, err := abi.ReadManifest(openedManifest(t, wasm))
	if err != nil || manifest.Find("Dedicated") == nil {
		t.Errorf("manifest = %+v, %v", manifest, err)
	}
}

func openedManifest(t *testing.T, wasm []byte) []byte {
	t.Helper()
	r, err := openGuest(t.Context(), t, wasm).Call(engine.FuncManifest, nil, engine.ManifestBudget)
	if err != nil {
		t.Fatal(err)
	}
	return r.Out
}

// A trap shows the guest's functions, those that were inlined too, with the
// lines of their source.
func TestATrapShowsSourceLines(t *testing.T) {
	t.Parallel()
	i := openGuest(t.Context(), t, buildC(t))
	var failure *engine.Failure
	// A record whose root lies outside of the guest's memory.
	if _, err := i.Call(engine.FuncApply, []byte{0xff, 0xff, 0xff, 0x7f}, engine.MaxBudget); !errors.As(err, &failure) {
		t.Fatalf("berth_apply = %v", err)
	}
	stack := strings.Join(failure.Stack, "\n")
	line := lineOf(t, "../../../examples/c-predicate/dedicated.c", "const u8 *batch = follow(input)")
	if want := fmt.Sprintf("berth_apply (c-predicate/dedicated.c:%d)", line); !strings.Contains(stack, want) || !strings.Contains(stack, "field (") {
		t.Errorf("the stack lacks %q:\n%s", want, stack)
	}
}

// A trap tells which row the guest was at: here its fuel ends at one of many.
func TestATrapTellsTheRow(t *testing.T) {
	t.Parallel()
	const nodes = 1000
	c, err := (&policytest.Table{Nodes: []policytest.Node{{Name: "n"}}}).Cluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	wasm, last := buildC(t), int32(-1)
	for _, budget := range []engine.Fuel{5_000, 20_000} {
		i := openGuest(t.Context(), t, wasm)
		if err := i.Watch(engine.MaxBudget); err != nil {
			t.Fatal(err)
		}
		for _, batch := range c.Batches {
			if r, err := i.Call(engine.FuncApply, batch, engine.MaxBudget); err != nil || r.Status != abi.StatusOK {
				t.Fatal(r, err)
			}
		}
		var failure *engine.Failure
		_, err := i.Call(engine.FuncFilter, rowNumbers(0, nodes), budget)
		if !errors.As(err, &failure) || failure.Kind != engine.FuelSpent || failure.At <= last || failure.At >= nodes {
			t.Fatalf("with %d units of fuel berth_filter = %+v", budget, failure)
		}
		last = failure.At
	}
}

// lineOf is the number of the line that holds a text.
func lineOf(t *testing.T, file, text string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(data), text)
	if !found {
		t.Fatalf("%s does not hold %q", file, text)
	}
	return strings.Count(before, "\n") + 1
}
