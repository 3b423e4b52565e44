package policy_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/schedule/cycle"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/store"
)

// load is scheduling at full speed beside swaps. Its fields belong to its
// goroutine; others ask.
type load struct {
	*rig
	versions map[string]guest // by digest; complete before a digest goes live
	asks     chan func()
	cycles   int
	faults   []string
}

// run decides without rest until ctx ends.
func (l *load) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case ask := <-l.asks:
			ask()
		default:
		}
		l.cycle(i)
		if i%512 == 0 { // as the scheduler does
			l.Rest(ctx)
		}
	}
}

// cycle makes one decision, by one set, and checks that just this set made it.
func (l *load) cycle(i int) {
	set := l.Current()
	object := clustertest.Pod(fmt.Sprint("load-", i), "10m", "1Mi", nil)
	pod := snapshot.NewPod(object)
	got := l.decider.Decide(context.Background(), cycle.Input{
		Set: set.Scheduling, Profile: set.Scheduling.For(pod), Log: l.cluster, Pod: pod, Seed: uint64(i),
	})
	l.decider.Compare(context.Background(), got.Slot)
	l.decider.End()
	l.cycles++
	if got.Slot < 0 || len(got.Failures) > 0 {
		l.fault("cycle %d ended with %+v", i, got)
		return
	}
	for name, digest := range set.Digests() {
		g, ours := l.versions[digest]
		if ours && got.Slot&g.Mask == g.Refuse {
			l.fault("cycle %d chose row %d, which %s of its set, version %s, refuses", i, got.Slot, name, g.Version)
		}
	}
	if want := min(got.Nodes, 2); got.Feasible != want {
		l.fault("cycle %d had %d feasible rows, want the %d that both policies of one set admit", i, got.Feasible, want)
	}
	l.cluster.Place(pod, l.cluster.Row(got.Slot).Node.Name)
	if i >= 100 {
		l.cluster.Remove(clustertest.Pod(fmt.Sprint("load-", i-100), "10m", "1Mi", nil).UID)
	}
}

func (l *load) fault(format string, args ...any) {
	if len(l.faults) < 10 {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// between runs do between two cycles.
func (l *load) between(ctx context.Context, do func()) error {
	done := make(chan struct{})
	select {
	case l.asks <- func() { do(); close(done) }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// present is policy.Config.Present.
func (l *load) present(ctx context.Context) (log snapshot.Log, err error) {
	err = l.between(ctx, func() { log, _ = l.cluster.At(l.cluster.Seq()) })
	return log, err
}

// TestSwapsUnderLoad (40 swaps, 1,000 in a campaign) replaces two policies again and again while pods are
// decided. Each set's pair leaves two of eight rows, so that a cycle which
// mixed two sets, or remembered an answer of another, would be seen.
func TestSwapsUnderLoad(t *testing.T) {
	n := 40
	campaign := os.Getenv("BERTH_CAMPAIGN") != ""
	if campaign {
		n = 1000 // alone, since memory is measured
	} else {
		t.Parallel()
	}
	// Memory is measured of what is left over, not of what is told of the past.
	r := newRig(t, store.Options{History: 2 * time.Second})
	own, err := engine.New(t.Context(), engine.Config{CacheDir: enginetest.Cache()})
	if err != nil {
		t.Fatal(err)
	}
	l := &load{rig: r, versions: map[string]guest{}, asks: make(chan func())}
	config := r.Config
	config.Engine, config.Present, config.Log = own, l.present, slog.New(slog.DiscardHandler)
	r.Loader = policy.NewLoader(config)
	r.cluster = snapshot.New(1 << 20) // a longer log would still be growing
	r.withNodes(8)
	for _, name := range []string{"odd", "half"} {
		l.version(t, name, 0)
		r.join(t, name, "predicate")
	}
	r.Load(t.Context())

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { l.run(ctx); ended <- nil }()
	go func() { ended <- r.Run(ctx) }()
	bad, early, late := 0, 0, 0
	var slowest time.Duration
	for k := 1; k <= n; k++ {
		name := []string{"odd", "half"}[k%2]
		began := time.Now()
		if k%10 == 0 {
			l.broken(t, name, k)
			bad++
		} else {
			l.version(t, name, k)
		}
		l.settled(t, name, k%10 == 0)
		slowest = max(slowest, time.Since(began))
		if campaign && k == 100 {
			early = resident(t)
		}
	}
	if campaign {
		late = resident(t)
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for _, f := range l.faults {
		t.Error(f)
	}
	t.Logf("%d swaps, %d of them bad, beside %d cycles; the slowest took %v with its compilation; resident %d KiB early, %d KiB at the end", n, bad, l.cycles, slowest, early>>10, late>>10)
	if late > early+early/10 {
		t.Errorf("resident memory grew from %d KiB to %d KiB", early>>10, late>>10)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if modules, holds := own.Holds(); modules != 0 || holds != 0 {
		t.Errorf("%d modules are left over, held by %d", modules, holds)
	}
}

// version pushes a good module.
func (l *load) version(t *testing.T, name string, k int) {
	g := guest{Name: name, Version: strconv.Itoa(k), Mask: 1, Refuse: int32(k / 2 % 2)}
	if name == "half" {
		g.Mask, g.Refuse = 2, int32(k/2%2)*2
	}
	wasm := g.Bytes()
	module := l.upload(t, wasm)
	digest := strings.Replace(module, "sha256-", "sha256:", 1)
	if k == 0 {
		l.versions[digest] = g
	} else if err := l.between(t.Context(), func() { l.versions[digest] = g }); err != nil {
		t.Fatal(err)
	}
	l.write(t, name, func(s *v1alpha1.PolicySpec) { s.Module = module })
}

// broken pushes a module that must not go live.
func (l *load) broken(t *testing.T, name string, k int) {
	g := guest{Name: name, Version: strconv.Itoa(k), Refuse: -1}
	module := ""
	switch k / 10 % 4 {
	case 0:
		g.BadOpen = true
	case 1:
		g.BadApply = true
	case 2:
		g.Name = "another"
		g.Version += " of two"
	case 3: // bytes that are no module at all
		module = "sha256-" + fmt.Sprintf("%064x", k)
		m := &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Digest: strings.Replace(module, "-", ":", 1)}}
		if err := l.Modules.Keep(t.Context(), m, []byte("no module")); err != nil {
			t.Fatal(err)
		}
	}
	if module == "" {
		module = l.upload(t, g.Bytes())
	}
	l.write(t, name, func(s *v1alpha1.PolicySpec) {
		s.Module, s.Entry = module, ""
		if k/10%4 == 2 {
			s.Entry = name
		}
	})
}

// settled waits until the loader has said what became of a policy's spec.
func (l *load) settled(t *testing.T, name string, bad bool) {
	t.Helper()
	var p *v1alpha1.Policy
	polltest.Until(t, fmt.Sprintf("a new generation of policy %s is taken up", name), func() bool {
		o, ok := l.store.Get(store.Key{Resource: v1alpha1.Policies, Name: name})
		if !ok {
			t.Fatalf("policy %s is gone", name)
		}
		p = o.(*v1alpha1.Policy)
		return p.Status.ObservedGeneration == p.Generation
	})
	if refused := p.Status.Phase == v1alpha1.PhaseRefused; refused != bad {
		t.Fatalf("policy %s, generation %d, is %s: %s", name, p.Generation, p.Status.Phase, p.Status.Message)
	}
}

// resident is the process's resident memory, once garbage is collected: the
// least of some looks, since the system takes pages back at its leisure.
func resident(t *testing.T) int {
	t.Helper()
	least := 0
	for look := range 3 {
		polltest.Pass(time.Second)
		debug.FreeOSMemory()
		data, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		pages, err := strconv.Atoi(strings.Fields(string(data))[1])
		if err != nil {
			t.Fatal(err)
		}
		if now := pages * os.Getpagesize(); look == 0 || now < least {
			least = now
		}
	}
	return least
}
