package policy_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/store"
)

// reads counts the modules whose bytes are read. fails, if there is one, says why
// that is not possible.
type reads struct {
	*store.Store
	n     atomic.Int32
	fails func() error
}

func (r *reads) Blob(ctx context.Context, digest string) ([]byte, error) {
	r.n.Add(1)
	if r.fails != nil {
		if err := r.fails(); err != nil {
			return nil, err
		}
	}
	return r.Store.Blob(ctx, digest)
}

// examining is a rig with an engine of its own, which holds nothing yet.
func examining(t *testing.T) (*rig, *engine.Engine, *reads) {
	t.Helper()
	return restarted(t, newRig(t))
}

// uploadedAt has a module look as if it had come then.
func (r *rig) uploadedAt(t *testing.T, name string, at time.Time) {
	t.Helper()
	_, err := r.store.Update(t.Context(), store.Key{Resource: v1alpha1.Modules, Name: name}, func(o store.Object) (store.Object, error) {
		m := o.(*v1alpha1.Module).DeepCopy()
		m.CreationTimestamp = metav1.NewTime(at)
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// restarted is another host over the same store.
func restarted(t *testing.T, before *rig) (*rig, *engine.Engine, *reads) {
	t.Helper()
	is := *before
	r := &is
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
	if p := r.put(t, "made", withModule(name)); p.Status.Phase != v1alpha1.PhaseLive {
		t.Fatalf("the policy is %s: %s", p.Status.Phase, p.Status.Message)
	}
	before := counted.n.Load()
	r.put(t, "made", withModule(r.upload(t, made(2))))
	if n := counted.n.Load() - before; n != 0 {
		t.Errorf("%d modules were read for a swap to one that was just uploaded, want none", n)
	}
	small := int64(32 << 20)
	p := r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Limits = &v1alpha1.PolicyLimits{MemoryBytes: small} })
	if n := counted.n.Load() - before; n != 1 || p.Status.Phase != v1alpha1.PhaseLive {
		t.Errorf("%d modules were read for other limits, want 1: it must be vetted for them; the policy is %s", n, p.Status.Phase)
	}
}

// After a start the engine holds nothing but what policies run.
func TestASwapAfterAStartDoesNotReadTheModule(t *testing.T) {
	t.Parallel()
	before := newRig(t)
	var names []string
	for i := range policy.MaxReady + 3 {
		name := before.upload(t, made(i))
		before.uploadedAt(t, name, time.Now().Add(time.Duration(i-60)*time.Minute))
		names = append(names, name)
	}
	before.put(t, "made", withModule(names[0])) // the oldest, and so the last to be made ready
	before.put(t, "made", withModule(names[1]))
	before.put(t, "made", withModule(names[2]))

	r, own, counted := restarted(t, before)
	r.Load(t.Context())
	running, _ := own.Holds()
	// As a host does with those that come with it.
	if _, err := r.Modules.Inspect(t.Context(), made(2)); err != nil {
		t.Fatal(err)
	}
	if err := r.Modules.MakeReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, _ := own.Holds(); n != running+policy.MaxReady {
		t.Errorf("%d modules are loaded beside the %d that policies run, want %d", n-running, running, policy.MaxReady)
	}
	reads := counted.n.Load()
	for _, name := range []string{names[0], names[len(names)-1], names[1]} {
		if p := r.put(t, "made", withModule(name)); p.Status.Phase != v1alpha1.PhaseLive {
			t.Errorf("the policy is %s: %s", p.Status.Phase, p.Status.Message)
		}
	}
	if n := counted.n.Load() - reads; n != 0 {
		t.Errorf("%d modules were read for swaps to those that came last and those that were live before, want none", n)
	}
}

func TestWhatCameSinceTheStartIsNotPushedOutByWhatIsOlder(t *testing.T) {
	t.Parallel()
	before := newRig(t)
	for i := range policy.MaxReady {
		before.upload(t, made(i))
	}
	r, _, _ := restarted(t, before)
	r.Load(t.Context())
	var digests []string
	for i := range 3 {
		m, err := r.Modules.Inspect(t.Context(), made(100+i))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, m.Spec.Digest)
	}
	if err := r.Modules.MakeReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, digest := range digests {
		if !r.IsReady(digest) {
			t.Errorf("%s is no longer ready", digest)
		}
	}
}

func TestTheOldestReadyModulesMakeRoom(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		wasm  func(i int) []byte
		n     int
		least int
		most  int
	}{
		{"small ones, by their number", made, policy.MaxReady + 4, policy.MaxReady, policy.MaxReady},
		{"large ones, by their bytes", large, 12, 2, policy.MaxReadyBytes / (2 * largeBytes)},
		{"one again and again, once", func(int) []byte { return made(0) }, 5, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, own, _ := examining(t)
			var last string
			for i := range test.n {
				m, err := r.Modules.Inspect(t.Context(), test.wasm(i))
				if err != nil {
					t.Fatal(err)
				}
				last = m.Spec.Digest
			}
			modules, holds := own.Holds()
			if modules < test.least || modules > test.most || holds != modules {
				t.Errorf("of %d modules %d are loaded, held by %d; want %d to %d, and each held once", test.n, modules, holds, test.least, test.most)
			}
			if have := r.ReadyBytes(); have <= 0 || have > policy.MaxReadyBytes {
				t.Errorf("they take %d bytes, want some, and %d at most", have, policy.MaxReadyBytes)
			}
			if !r.IsReady(last) {
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
	if _, _, err := p.store.Commit(t.Context(), store.Op{Kind: store.Delete, Key: store.Key{Resource: v1alpha1.Modules, Name: name}}); err != nil {
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
				if _, err := r.Modules.Inspect(t.Context(), made(i*(side+1)%(policy.MaxReady+8))); err != nil {
					t.Error(err)
				}
				if i%10 == side {
					r.ForgetReady()
				}
			}
		})
	}
	group.Wait()
}
