package policy_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/store"
)

// reads counts the modules whose bytes are read.
type reads struct {
	*store.Store
	n atomic.Int32
}

func (r *reads) Blob(ctx context.Context, digest string) ([]byte, error) {
	r.n.Add(1)
	return r.Store.Blob(ctx, digest)
}

// examining is a rig with an engine of its own, which holds nothing yet.
func examining(t *testing.T) (*rig, *engine.Engine, *reads) {
	t.Helper()
	r := newRig(t)
	own, err := engine.New(t.Context(), engine.Config{CacheDir: enginetest.Cache()})
	if err != nil {
		t.Fatal(err)
	}
	counted := &reads{Store: r.store}
	config := r.Config
	config.Engine, config.Objects, config.Log = own, counted, slog.New(slog.DiscardHandler)
	r.Loader = policy.NewLoader(config)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if modules, holds := own.Holds(); modules != 0 || holds != 0 {
			t.Errorf("%d modules are left over, held by %d", modules, holds)
		}
	})
	return r, own, counted
}

func made(version int) []byte {
	return guest{Name: "made", Version: fmt.Sprint(version), Refuse: -1}.Bytes()
}

func TestASwapToAModuleThatCameLatelyDoesNotReadItAgain(t *testing.T) {
	t.Parallel()
	r, _, counted := examining(t)
	name := r.upload(t, made(1))
	if p := r.put(t, "made", module(name)); p.Status.Phase != policy.PhaseLive {
		t.Fatalf("the policy is %s: %s", p.Status.Phase, p.Status.Message)
	}
	before := counted.n.Load()
	r.put(t, "made", module(r.upload(t, made(2))))
	if n := counted.n.Load() - before; n != 0 {
		t.Errorf("%d modules were read for a swap to one that was just uploaded, want none", n)
	}
	small := int64(32 << 20)
	p := r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Limits = &v1alpha1.PolicyLimits{MemoryBytes: small} })
	if n := counted.n.Load() - before; n != 1 || p.Status.Phase != policy.PhaseLive {
		t.Errorf("%d modules were read for other limits, want 1: it must be vetted for them; the policy is %s", n, p.Status.Phase)
	}
}

func TestTheOldestExaminedModulesMakeRoom(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		wasm  func(i int) []byte
		n     int
		least int
		most  int
	}{
		{"small ones, by their number", made, policy.MostExamined + 4, policy.MostExamined, policy.MostExamined},
		{"large ones, by their bytes", large, 12, 2, policy.MostExaminedBytes / (2 * largeBytes)},
		{"one again and again, once", func(int) []byte { return made(0) }, 5, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, own, _ := examining(t)
			var last string
			for i := range test.n {
				m, err := r.Inspect(t.Context(), test.wasm(i))
				if err != nil {
					t.Fatal(err)
				}
				last = m.Spec.Digest
			}
			modules, holds := own.Holds()
			if modules < test.least || modules > test.most || holds != modules {
				t.Errorf("of %d modules %d are loaded, held by %d; want %d to %d, and each held once", test.n, modules, holds, test.least, test.most)
			}
			if have := r.ExaminedBytes(); have <= 0 || have > policy.MostExaminedBytes {
				t.Errorf("they take %d bytes, want some, and %d at most", have, policy.MostExaminedBytes)
			}
			if !r.IsExamined(last) {
				t.Error("the last of them is not there")
			}
		})
	}
}

const largeBytes = 4 << 20

func large(i int) []byte {
	m := wasmtest.Policy()
	m.Passive(append(make([]byte, largeBytes), byte(i+1)))
	return m.Bytes()
}

func TestAModuleThatIsDeletedDoesNotStayLoaded(t *testing.T) {
	t.Parallel()
	p := newParting(t)
	p.Load(t.Context())
	p.start(t)
	before := p.modules()
	name := p.upload(t, made(1))
	if n := p.modules(); n != before+1 {
		t.Fatalf("%d modules are loaded after an upload, want %d", n, before+1)
	}
	if _, _, err := p.store.Commit(t.Context(), store.Op{Kind: store.Delete, Key: store.Key{Resource: policy.Modules, Name: name}}); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the module is given back", func() bool { return p.modules() == before })
}

// Uploads, swaps and deletions come from many sides at once.
func TestModulesComeAndGoAtOnce(t *testing.T) {
	t.Parallel()
	r, _, _ := examining(t)
	var group sync.WaitGroup
	for side := range 4 {
		group.Go(func() {
			for i := range 40 {
				if _, err := r.Inspect(t.Context(), made(i*(side+1)%(policy.MostExamined+8))); err != nil {
					t.Error(err)
				}
				if i%10 == side {
					r.ForgetExamined()
				}
			}
		})
	}
	group.Wait()
}
