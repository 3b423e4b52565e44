package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/policies-wasm/bundle"
)

func TestMain(m *testing.M) {
	ChildProgram = enginetest.Compiler()
	os.Exit(m.Run())
}

func newEngine(tb testing.TB) *Engine {
	tb.Helper()
	e, err := New(context.Background(), Config{CacheDir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestAHandWrittenModuleAnswers(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	p := wasmtest.Policy()
	p.Export("berth_filter", wasmtest.Sig([]byte{wasmtest.I32}, wasmtest.I64), nil,
		wasmtest.I32Const(wasmtest.InputAt), wasmtest.I32Const(wasmtest.InputAt), wasmtest.Load32(0), wasmtest.I32Const(1), wasmtest.Op(0x6a), wasmtest.Store32(0),
		wasmtest.I64Const(wasmtest.InputAt<<32|4))
	m, err := e.Load(context.Background(), p.Bytes(), vet.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got := string(m.Manifest()); got != wasmtest.Manifest {
		t.Errorf("manifest = %s, want %s", got, wasmtest.Manifest)
	}
	i, err := m.Open(context.Background(), OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	r, err := i.Call(FuncFilter, []byte{41, 0, 0, 0}, 5*PerMillisecond)
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Out) != "\x2a\x00\x00\x00" {
		t.Errorf("filter = %v, want 42", r.Out)
	}
}

// built is the guest of testdata, built by Go for wasip1, once.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return os.ReadFile(out)
})

func goGuest(tb testing.TB) []byte {
	tb.Helper()
	wasm, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

func TestAGuestBuiltByGoAnswers(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	m, err := e.Load(context.Background(), goGuest(t), vet.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	i, err := m.Open(context.Background(), OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	for range 3 {
		r, err := i.Call(FuncFilter, []byte{41, 0, 7}, 5*PerMillisecond)
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Out) != "\x28\x01\x06" {
			t.Errorf("filter = %v, want each byte's last bit turned", r.Out)
		}
	}
}

// TestLimitsLeaveRoom holds that what Go compiles, and the built-in policies,
// stay within half of each limit.
func TestLimitsLeaveRoom(t *testing.T) {
	t.Parallel()
	wasms := map[string][]byte{"a guest built by Go": goGuest(t)}
	modules, err := bundle.Modules()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		wasms[m.Name] = m.Wasm
	}
	limit := vet.DefaultLimits()
	for name, wasm := range wasms {
		_, r, err := vet.Rewrite(wasm, vet.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, l := range []struct {
			what     string
			got, may int
		}{
			{"bytes", r.BytesIn, limit.Bytes}, {"types", r.Types, limit.Types}, {"functions", r.Functions, limit.Functions},
			{"imports", len(r.Imports), limit.Imports}, {"exports", len(r.Exports), limit.Exports}, {"globals", r.Globals, limit.Globals},
			{"bytes of a function", r.BodyBytes, limit.BodyBytes}, {"locals", r.Locals, limit.Locals}, {"nested blocks", r.Nesting, limit.Nesting},
			{"blocks", r.Blocks, limit.Blocks}, {"locals times blocks", r.Flow, limit.Flow}, {"targets of a branch table", r.BranchTable, limit.BranchTable},
			{"targets of a function's branch tables", r.BranchAll, limit.BranchTables},
			{"entries of a table", r.TableSize, limit.TableEntries}, {"data segments", r.Data, limit.Data},
		} {
			if 2*l.got > l.may {
				t.Errorf("%s has %d %s, more than half of the limit of %d", name, l.got, l.what, l.may)
			}
		}
		t.Logf("%s: %d functions, at most %d bytes, %d locals, %d nested, %d blocks, %d flow, %d targets; %d charges, the dearest %d; %d recursive; %d -> %d bytes",
			name, r.Functions, r.BodyBytes, r.Locals, r.Nesting, r.Blocks, r.Flow, r.BranchAll, r.Charges, r.Largest, r.Recursive, r.BytesIn, r.BytesOut)
	}
}
