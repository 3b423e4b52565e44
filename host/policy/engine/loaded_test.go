package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

func ownEngine(t *testing.T) *Engine {
	t.Helper()
	e, err := New(t.Context(), Config{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestLoadedFindsWhatIsInMemoryAlone(t *testing.T) {
	t.Parallel()
	e, wasm := ownEngine(t), wasmtest.Policy().Bytes()
	sum := sha256.Sum256(wasm)
	if m := e.Loaded(sum, vet.DefaultLimits()); m != nil {
		t.Error("a module is found that was never loaded")
	}
	first, err := e.Load(t.Context(), wasm, vet.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	second := e.Loaded(sum, vet.DefaultLimits())
	if second == nil {
		t.Fatal("a module is not found that is loaded")
	}
	first.Close()
	i, err := second.Open(t.Context(), OpenConfig{})
	if err != nil {
		t.Fatalf("it does not open once who loaded it has closed it: %v", err)
	}
	i.Close()
	second.Close()
	if m := e.Loaded(sum, vet.DefaultLimits()); m != nil {
		t.Error("a module is found that everybody has closed")
	}
}

// What vet said holds for the limits that it was asked about.
func TestTheSameBytesAreVettedAgainUnderOtherLimits(t *testing.T) {
	t.Parallel()
	e, wasm := ownEngine(t), wasmtest.Policy().Bytes()
	m, err := e.Load(t.Context(), wasm, vet.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	narrow := vet.DefaultLimits()
	narrow.Functions = 1
	if other := e.Loaded(sha256.Sum256(wasm), narrow); other != nil {
		t.Error("a module counts as loaded under limits that it was not vetted for")
	}
	var refusal *vet.Refusal
	if _, err := e.Load(t.Context(), wasm, narrow); !errors.As(err, &refusal) {
		t.Errorf("Load under narrower limits = %v, want a refusal", err)
	}
	if _, err := e.Load(t.Context(), wasm, narrow); !errors.As(err, &refusal) {
		t.Errorf("a second Load under narrower limits = %v, want a refusal", err)
	}
}

// Code in memory does not depend on the cache; what is loaded after that does.
func TestAnEntryThatIsSpoiltBetweenTwoLoadsIsNoticed(t *testing.T) {
	t.Parallel()
	e, wasm := ownEngine(t), wasmtest.Policy().Bytes()
	m := load(t, e, wasm)
	for _, path := range entries(t, e) {
		b, err := os.ReadFile(path)
		check(t, err)
		b[len(b)/2] ^= 1
		check(t, os.WriteFile(path, b, privateFile))
	}
	again := e.Loaded(sha256.Sum256(wasm), vet.Limits{})
	if again == nil || e.Compiled() != 1 {
		t.Fatalf("the module is loaded: %v; %d compilations, want one", again != nil, e.Compiled())
	}
	again.Close()
	m.Close()
	load(t, e, wasm)
	if n := e.Compiled(); n != 2 {
		t.Errorf("%d compilations after the entry was spoilt, want 2", n)
	}
}

func TestLoadsAndClosesMeet(t *testing.T) {
	t.Parallel()
	e, wasm := ownEngine(t), wasmtest.Policy().Bytes()
	sum := sha256.Sum256(wasm)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				m := e.Loaded(sum, vet.DefaultLimits())
				if m == nil {
					var err error
					if m, err = e.Load(context.Background(), wasm, vet.DefaultLimits()); err != nil {
						t.Error(err)
						return
					}
				}
				i, err := m.Open(context.Background(), OpenConfig{})
				if err != nil {
					t.Error(err)
				} else {
					i.Close()
				}
				m.Close()
			}
		})
	}
	group.Wait()
	if modules, holds := e.Holds(); modules != 0 || holds != 0 {
		t.Errorf("%d modules are left over, held by %d", modules, holds)
	}
}
