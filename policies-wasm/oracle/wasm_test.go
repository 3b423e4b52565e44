package oracle

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/vet"
)

// TestMain lets the engine start this binary as its compile child.
func TestMain(m *testing.M) {
	engine.ChildMain()
	os.Exit(m.Run())
}

// bundles are compiled modules, by the policies in them.
type bundles struct{ predicates, priorities *engine.Module }

func compile(t *testing.T, with build.Toolchain) (b bundles) {
	t.Helper()
	e, err := engine.New(t.Context(), engine.Config{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	load := func(dir string) *engine.Module {
		wasm, err := with.Module(t.Context(), dir, false)
		if err != nil {
			t.Fatal(err)
		}
		m, err := e.Load(t.Context(), wasm, vet.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		return m
	}
	return bundles{load("../modules/predicates"), load("../modules/priorities")}
}

// open opens a policy in a sandbox of its own.
func (b bundles) open(t *testing.T, policy string, config []byte) speaker {
	module := b.priorities
	for _, s := range predicates {
		for _, name := range s.policies {
			if name == policy {
				module = b.predicates
			}
		}
	}
	in, err := module.Open(t.Context(), engine.OpenConfig{})
	if err != nil {
		t.Fatalf("open %s: %v", policy, err)
	}
	s := sandbox{in}
	if err := s.status(engine.FuncOpen, config); err != nil {
		t.Fatalf("open %s: %v", policy, err)
	}
	return s
}

// sandbox is a policy as a guest.
type sandbox struct{ in *engine.Instance }

const plenty = 100 * engine.PerMillisecond

func (s sandbox) status(f engine.Func, in []byte) error {
	r, err := s.in.Call(f, in, plenty)
	if err == nil && r.Status != 0 {
		said, _ := s.in.Call(engine.FuncError, nil, plenty)
		err = errors.New(string(said.Out))
	}
	return err
}

func (s sandbox) give(f engine.Func, in []byte) ([]byte, error) {
	r, err := s.in.Call(f, in, plenty)
	return r.Out, err
}

func (s sandbox) apply(in []byte) error { return s.status(engine.FuncApply, in) }

func (s sandbox) pod(in []byte) (uint64, error) {
	r, err := s.in.Call(engine.FuncPod, in, plenty)
	return r.Packed, err
}

func (s sandbox) filter(rows []byte) ([]byte, error) { return s.give(engine.FuncFilter, rows) }
func (s sandbox) score(rows []byte) ([]byte, error)  { return s.give(engine.FuncScore, rows) }

func (s sandbox) explain(row uint32) ([]byte, error) {
	return s.give(engine.FuncExplain, binary.LittleEndian.AppendUint32(nil, row))
}

func (s sandbox) reasons(from uint32) ([]byte, error) {
	r, err := s.in.CallNumber(engine.FuncReasons, from, plenty)
	return r.Out, err
}

func (s sandbox) close() { s.in.Close() }

func TestGuestsAnswerAsKubeSchedulerDoes(t *testing.T) {
	t.Parallel()
	with, err := build.Find()
	if err != nil {
		t.Fatal(err)
	}
	walk(t, themes, compile(t, with).open)
}

func TestGuestsByStockGoAnswerAsKubeSchedulerDoes(t *testing.T) {
	t.Parallel()
	with, err := build.Stock()
	if err != nil {
		t.Fatal(err)
	}
	walk(t, []string{"mixed"}, compile(t, with).open)
}
