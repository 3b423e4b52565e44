package oracle

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

func TestMain(m *testing.M) {
	engine.ChildProgram = enginetest.Compiler()
	os.Exit(m.Run())
}

// bundles are compiled modules, by the policies in them.
type bundles struct{ predicates, priorities *engine.Module }

// Each toolchain builds the bundles once for all tests.
var (
	preferred = sync.OnceValues(func() (bundles, error) { return compile(build.Find) })
	stock     = sync.OnceValues(func() (bundles, error) { return compile(build.Stock) })
)

func compile(find func() (build.Toolchain, error)) (b bundles, err error) {
	with, err := find()
	if err != nil {
		return b, err
	}
	ctx := context.Background()
	e, err := engine.New(ctx, engine.Config{CacheDir: enginetest.Cache()})
	if err != nil {
		return b, err
	}
	defer e.Close()
	for dir, into := range map[string]**engine.Module{"predicates": &b.predicates, "priorities": &b.priorities} {
		wasm, err := with.Module(ctx, "../modules/"+dir, false)
		if err != nil {
			return b, err
		}
		if *into, err = e.Load(ctx, wasm, vet.Limits{}); err != nil {
			return b, err
		}
	}
	return b, nil
}

// open opens a policy in a sandbox of its own.
func (b bundles) open(t *testing.T, policy string, config []byte) speaker {
	module := b.priorities
	if m, err := abi.ReadManifest(b.predicates.Manifest()); err == nil && m.Find(policy) != nil {
		module = b.predicates
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

func (s sandbox) refusal() ([]byte, error) { return s.give(engine.FuncExplain, nil) }

func (s sandbox) reasons(from uint32) ([]byte, error) {
	r, err := s.in.CallNumber(engine.FuncReasons, from, plenty)
	return r.Out, err
}

func (s sandbox) close() { s.in.Close() }

func TestGuestsAnswerAsKubeSchedulerDoes(t *testing.T) {
	t.Parallel()
	b, err := preferred()
	if err != nil {
		t.Fatal(err)
	}
	walk(t, themes, b.open)
}

func TestGuestsByStockGoAnswerAsKubeSchedulerDoes(t *testing.T) {
	t.Parallel()
	b, err := stock()
	if err != nil {
		t.Fatal(err)
	}
	walk(t, []string{"mixed"}, b.open)
}

func TestAClusterFitsTheBudgets(t *testing.T) {
	t.Parallel()
	cluster := benchCluster()
	var base []snapshot.Delta
	cluster.Base(func(d snapshot.Delta) bool {
		base = append(base, d)
		return true
	})
	for name, bundles := range map[string]func() (bundles, error){"preferred": preferred, "stock": stock} {
		b, err := bundles()
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range []*engine.Module{b.predicates, b.priorities} {
			manifest, err := abi.ReadManifest(module.Manifest())
			if err != nil {
				t.Fatal(err)
			}
			for i := range manifest.Policies {
				t.Run(name+"/"+manifest.Policies[i].Name, func(t *testing.T) {
					tell(t, module, &manifest.Policies[i], cluster, base)
				})
			}
		}
	}
}

// tell gives a guest a cluster in the batches and within the budgets that a
// host has for it, and then lets it collect.
func tell(t *testing.T, module *engine.Module, p *abi.Policy, cluster *snapshot.Cluster, base []snapshot.Delta) {
	in, err := module.Open(t.Context(), engine.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.Call(engine.FuncOpen, []byte(`{"policy":"`+p.Name+`"}`), engine.OpenBudget); err != nil {
		t.Fatal(err)
	}
	encoder := wire.NewEncoder()
	encoder.Expect(cluster.Slots())
	for batch := range slices.Chunk(base, wire.MaxBatch) {
		b, _ := encoder.Deltas(batch, p.Groups())
		if r, err := in.Call(engine.FuncApply, b, engine.ApplyBudget(len(batch), len(b), in.MemoryBytes(), int(cluster.Slots()))); err != nil || r.Status != 0 {
			t.Fatalf("apply: status %d, %v", r.Status, err)
		}
	}
	if _, err := in.Call(engine.FuncIdle, nil, engine.IdleBudget(in.MemoryBytes(), int(cluster.Slots()))); err != nil {
		t.Fatal(err)
	}
}
