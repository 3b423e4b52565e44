package vet_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/policies-wasm/bundle"
)

var printRoom = flag.Bool("vet.room", false, "print how much of each limit real modules use")

// realModules are what compilers emit, by compiler: the built-in policies by
// TinyGo and by stock Go, and the policy in C.
func realModules(t *testing.T) map[string][][]byte {
	t.Helper()
	all := map[string][][]byte{}
	bundles, err := bundle.Modules()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bundles {
		all["TinyGo"] = append(all["TinyGo"], b.Wasm)
	}
	root := filepath.Join("..", "..", "..")
	files, err := filepath.Glob(filepath.Join(root, ".build", "wasm-go", "*.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "dedicated.wasm")
	said, err := exec.CommandContext(t.Context(), filepath.Join(root, "examples", "c-predicate", "build.sh"), out).CombinedOutput()
	if len(bundles) == 0 || len(files) == 0 || err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("%d modules by TinyGo, %d by Go (.ci/tools/wasm.sh [--stock] makes them); in C: %v %s", len(bundles), len(files), err, said)
		}
		t.Fatalf("%d modules by TinyGo, %d by Go; in C: %v %s", len(bundles), len(files), err, said)
	}
	for _, file := range files {
		all["Go"] = append(all["Go"], read(t, file))
	}
	all["C"] = append(all["C"], read(t, out))
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// TestRealModulesLeaveHalfOfEachLimit holds that no limit turns away what
// compilers emit, nor will soon.
func TestRealModulesLeaveHalfOfEachLimit(t *testing.T) {
	t.Parallel()
	half := vet.DefaultLimits()
	fields := reflect.ValueOf(&half).Elem()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.CanInt() {
			f.SetInt(f.Int() / 2)
		}
	}
	modules := realModules(t)
	for compiler, all := range modules {
		for i, wasm := range all {
			if _, _, err := vet.Rewrite(wasm, half); err != nil {
				t.Errorf("module %d by %s comes within half of a limit: %v", i, compiler, err)
			}
		}
	}
	if *printRoom {
		fmt.Print(room(t, modules))
	}
}

// room is a table of the limits and the largest need of each compiler's modules.
func room(t *testing.T, modules map[string][][]byte) string {
	t.Helper()
	var compilers []string
	for c := range modules {
		compilers = append(compilers, c)
	}
	sort.Strings(compilers)
	var b strings.Builder
	fmt.Fprintf(&b, "| limit | allowed | %s |\n|---|%s\n", strings.Join(compilers, " | "), strings.Repeat("---|", len(compilers)+1))
	allowed := reflect.ValueOf(vet.DefaultLimits())
	for i := range allowed.NumField() {
		if !allowed.Field(i).CanInt() {
			continue
		}
		most := int(allowed.Field(i).Int())
		fmt.Fprintf(&b, "| %s | %d |", allowed.Type().Field(i).Name, most)
		for _, c := range compilers {
			need := 0
			for _, wasm := range modules[c] {
				need = max(need, needs(t, wasm, i, most))
			}
			fmt.Fprintf(&b, " %d |", need)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// needs is the least value of a limit with which the module is accepted.
func needs(t *testing.T, wasm []byte, field, most int) int {
	t.Helper()
	return 1 + sort.Search(most-1, func(n int) bool {
		var limits vet.Limits
		reflect.ValueOf(&limits).Elem().Field(field).SetInt(int64(n + 1))
		_, _, err := vet.Rewrite(wasm, limits)
		var refusal *vet.Refusal
		if err != nil && !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		return err == nil
	})
}
