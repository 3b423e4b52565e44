package engine

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

func TestAChildThatDoesNotStartIsNoFaultOfTheModule(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.child = []string{filepath.Join(t.TempDir(), "none")}
	for range 2 {
		_, err := e.Load(t.Context(), wasmtest.Policy().Bytes(), vet.Limits{})
		if err == nil || errors.Is(err, ErrCompile) {
			t.Errorf("Load = %v, want an error that is not the module's", err)
		}
	}
}

// TestAChildThatTheMachineFailsIsNoFaultOfTheModule has a child killed that took
// hardly any time, as the kernel does when memory runs out, and the disk be full.
func TestAChildThatTheMachineFailsIsNoFaultOfTheModule(t *testing.T) {
	t.Parallel()
	program := program(t)
	for name, does := range map[string]string{
		"killed":  "kill -KILL $$",
		"no room": "exec " + program + " " + childName + " >/dev/full",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			e.child = script(t, does)
			_, err := e.Load(t.Context(), wasmtest.Policy().Bytes(), vet.Limits{})
			if err == nil || errors.Is(err, ErrCompile) {
				t.Errorf("Load = %v, want an error that is not the module's", err)
			}
		})
	}
}

// panicking is a context that panics where a load first waits for something.
type panicking struct{ context.Context }

func (panicking) Done() <-chan struct{} { panic("a fault of the host's own") }

func TestALoadThatPanicsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the load went well, and was to panic")
			}
		}()
		_, _ = e.Load(panicking{t.Context()}, wasmtest.Policy().Bytes(), vet.Limits{})
	}()
	if len(e.loading) > 0 {
		t.Fatalf("%d loads are still waited for", len(e.loading))
	}
	load(t, e, wasmtest.Policy().Bytes())
}
