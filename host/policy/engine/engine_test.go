package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

func TestMain(m *testing.M) {
	ChildMain()
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
