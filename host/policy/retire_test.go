package policy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/breaker"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/store"
)

// parting is a rig whose loader runs, beside a scheduler that is in the midst
// of a cycle for as long as the test wants.
type parting struct {
	*rig
	// before examines modules, and keeps some loaded for a while.
	before *rig
	engine *engine.Engine
	// cycling says that a cycle is under way; waits is told of each that waits
	// for its end, which is when ended is closed.
	cycling atomic.Bool
	waits   atomic.Int32
	ended   chan struct{}
}

func newParting(t *testing.T) *parting {
	t.Helper()
	before := newRig(t)
	own := *before
	p := &parting{rig: &own, before: before, ended: make(chan struct{})}
	var err error
	if p.engine, err = engine.New(t.Context(), engine.Config{CacheDir: enginetest.Cache()}); err != nil {
		t.Fatal(err)
	}
	view := p.cluster.Now()
	config := p.Config
	config.Engine, config.Log = p.engine, slog.New(slog.DiscardHandler)
	config.Present = func(ctx context.Context) (snapshot.Log, error) {
		if !p.cycling.Load() {
			return view, nil
		}
		p.waits.Add(1)
		select {
		case <-p.ended:
			return view, nil
		case <-ctx.Done():
			return nil, schedule.ErrNotRunning
		}
	}
	p.Loader = policy.NewLoader(config)
	return p
}

func (p *parting) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if modules, holds := p.engine.Holds(); modules != 0 || holds != 0 {
			t.Errorf("%d modules are left over, held by %d", modules, holds)
		}
	})
}

// drop deletes a policy and waits until the live set lacks it.
func (p *parting) drop(t *testing.T, name string) {
	t.Helper()
	if _, _, err := p.store.Commit(t.Context(), store.Op{Kind: store.Delete, Key: store.Key{Resource: v1alpha1.Policies, Name: name}}); err != nil {
		t.Fatal(err)
	}
	p.until(t, name+" has left", func() bool { return p.Current().Digests()[name] == "" })
}

func (p *parting) until(t *testing.T, what string, met func() bool) {
	t.Helper()
	polltest.Until(t, what, met)
}

func (p *parting) modules() int { n, _ := p.engine.Holds(); return n }

// made puts a policy of its own module into the default profile.
func (p *parting) made(t *testing.T, g guest) {
	t.Helper()
	p.put(t, g.Name, withModule(p.before.upload(t, g.Bytes())))
	p.join(t, g.Name, "predicate")
	p.Load(t.Context())
}

// A cycle may last longer than any while one thinks of: what it took stays
// until it has ended, however long.
func TestWhatACycleTookStaysUntilTheCycleEnds(t *testing.T) {
	t.Parallel()
	p := newParting(t)
	p.withNodes(4)
	p.made(t, guest{Name: "made", Version: "1", Refuse: -1})
	p.start(t)
	p.cycling.Store(true)
	set, all := p.Scheduling(), p.modules()
	p.drop(t, "made")
	p.until(t, "somebody waits for the cycle's end", func() bool { return p.waits.Load() > 0 })
	pod := snapshot.NewPod(clustertest.Pod("web", "10m", "1Mi", nil))
	got := p.decider.Decide(t.Context(), cycle.Input{Set: set, Profile: set.For(pod), Log: p.cluster, Pod: pod, Seed: 1})
	p.decider.End()
	if got.Slot < 0 || len(got.Failures) > 0 {
		t.Errorf("the cycle ended with %+v", got)
	}
	if n := p.modules(); n != all {
		t.Errorf("%d modules are loaded in the midst of the cycle, want %d", n, all)
	}
	close(p.ended)
	p.until(t, "the module is given back", func() bool { return p.modules() == all-1 })
}

// Policies may be the same but for their names: of each decision those are told
// that made it.
func TestARecalledDecisionNamesItsOwnPolicies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	alike := withModule(r.upload(t, guest{Name: "replicasEqual", Version: "1", Refuse: -1}.Bytes()))
	for _, name := range []string{"first", "second"} {
		if p := r.put(t, name, func(p *v1alpha1.PolicySpec) { alike(p); p.Entry = "replicasEqual" }); p.Status.Phase != v1alpha1.PhaseLive {
			t.Fatalf("%s is %s: %s", name, p.Status.Phase, p.Status.Message)
		}
		r.join(t, name, "predicate")
	}
	set := r.Scheduling()
	digest := set.Profiles["default-scheduler"].Digest()
	names := func() (found []string) {
		t.Helper()
		p, release, err := set.OpenDigest(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		for _, one := range p.Predicates {
			if name := one.Policy.Info().Name; name == "first" || name == "second" {
				found = append(found, name)
			}
		}
		return found
	}
	if got := names(); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("the live ones are called %q", got)
	}
	for _, name := range []string{"first", "second"} {
		if _, _, err := r.store.Commit(t.Context(), store.Op{Kind: store.Delete, Key: store.Key{Resource: v1alpha1.Policies, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	r.Load(t.Context())
	if got := names(); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("those that have left are called %q", got)
	}
}

// Who opens a set for itself (a replay, a plan) has no cycle: what it opened
// stays until it gives it back, and what has left can be made once more.
func TestWhatAReplayOpenedStaysUntilItIsGivenBack(t *testing.T) {
	t.Parallel()
	p := newParting(t)
	p.withNodes(4)
	p.made(t, guest{Name: "made", Version: "1", Mask: 3, Refuse: 1})
	p.start(t)
	set, all := p.Scheduling(), p.modules()
	before, release, err := set.Reopen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, held := p.engine.Holds()
	p.drop(t, "made")
	p.until(t, "the policy's sandboxes are given back", func() bool { _, n := p.engine.Holds(); return n < held })
	feasible := func(set *framework.LiveSet) int {
		t.Helper()
		pod := snapshot.NewPod(clustertest.Pod("web", "10m", "1Mi", nil))
		table, err := cycle.Judge(t.Context(), set.For(pod), p.reasons, p.cluster, pod, 0)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, ok := range table.Feasible {
			if ok {
				n++
			}
		}
		return n
	}
	if n := feasible(before); n != 3 {
		t.Errorf("%d rows are feasible to a set that was opened before its policy left, want 3", n)
	}
	release()
	p.until(t, "the module is given back", func() bool { return p.modules() == all-1 })
	after, release, err := set.Reopen(t.Context())
	if err != nil {
		t.Fatalf("a set whose policy has left cannot be opened: %v", err)
	}
	if n := feasible(after); n != 3 {
		t.Errorf("%d rows are feasible to a set that was opened after its policy left, want 3", n)
	}
	release()
	p.until(t, "the module is given back again", func() bool { return p.modules() == all-1 })
}

// A gate's round may last while its checker is swapped out. It is told so, and
// nobody takes that for a failure of the policy.
func TestAGateThatHasLeftSaysSo(t *testing.T) {
	t.Parallel()
	p := newParting(t)
	p.Load(t.Context())
	p.start(t)
	gate := p.Current().Gates()["berth.dev/MinReadySeconds"]
	all := p.modules()
	p.drop(t, gate.Name())
	p.until(t, "the module is given back", func() bool { return p.modules() == all-1 })
	pod := clustertest.Pod("web", "1m", "1Mi", nil)
	_, err := gate.Judge(t.Context(), 1, []wire.GatePod{{Pod: pod, Condition: "berth.dev/MinReadySeconds"}})
	if !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Judge = %v, want %v", err, engine.ErrClosed)
	}
	if n := p.modules(); n != all-1 {
		t.Errorf("%d modules are loaded after it was asked, want %d", n, all-1)
	}
}

// A policy that is quarantined now was none when it decided: to derive that again
// asks it nevertheless, and what comes of it counts neither for nor against it.
func TestAQuarantinedPolicysDecisionsAreDerivedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(2)
	// An instance answers once, and then it traps.
	r.put(t, "made", withModule(r.upload(t, guest{Name: "made", Version: "1", Mask: 1, Refuse: 1, Traps: 1}.Bytes())))
	r.join(t, "made", "predicate")
	set := r.Scheduling()
	digest := set.Profiles["default-scheduler"].Digest()
	figures := func() sandbox.Figures {
		t.Helper()
		for _, f := range r.Figures() {
			if f.Name == "made" {
				return f
			}
		}
		t.Fatal("there are no figures of the policy")
		return sandbox.Figures{}
	}
	for i := range 40 {
		r.cluster.UpsertNode(clustertest.Node("relabelled", "1", "1Gi", 10, func(n *v1.Node) { n.Labels["v"] = fmt.Sprint(i) }))
		r.placed(t, i, 1)
	}
	before := figures()
	if !before.Quarantined {
		t.Fatalf("the policy is not quarantined: %+v", before)
	}
	for range 3 * breaker.Default.Trial {
		p, release, err := set.OpenDigest(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		pod := snapshot.NewPod(clustertest.Pod("web", "10m", "1Mi", nil))
		table, err := cycle.Judge(t.Context(), p, r.reasons, r.cluster, pod, 0)
		release()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range table.Predicates {
			if v.Policy == "made" && (v.Err != nil || v.Reasons[0] != 0 || v.Reasons[1] == 0) {
				t.Fatalf("it says again %v, %v, want slot 1 refused", v.Reasons, v.Err)
			}
		}
	}
	if diff := cmp.Diff(before, figures()); diff != "" {
		t.Errorf("figures have changed (-before +after):\n%s", diff)
	}
}

// What a canary decided is derived again by the canary, also when it has been
// rolled back, and its Policy is gone.
func TestWhatACanaryDecidedIsDerivedAgainAfterItWasRolledBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(4)
	r.put(t, "made", withModule(r.upload(t, guest{Name: "made", Version: "1", Refuse: -1}.Bytes())))
	r.join(t, "made", "predicate")
	young := r.upload(t, guest{Name: "made", Version: "2", Mask: 1, Refuse: 1}.Bytes())
	r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Canary = canaryOf(young, 50, "0%") })
	set := r.Scheduling()
	decided := func(set *framework.LiveSet, name string) (*framework.Digest, int) {
		t.Helper()
		pod := snapshot.NewPod(clustertest.Pod(name, "10m", "1Mi", nil))
		p := set.For(pod)
		got := r.decider.Decide(t.Context(), cycle.Input{Set: set, Profile: p, Log: r.cluster, Pod: pod, Seed: 1})
		r.decider.Compare(t.Context(), got.Slot)
		r.decider.End()
		return p.Digest(), got.Feasible
	}
	digests, feasible := map[string]*framework.Digest{}, map[string]int{}
	for i := range 16 {
		name := fmt.Sprint("pod-", i)
		digests[name], feasible[name] = decided(set, name)
	}
	r.Load(t.Context())
	if got := r.policy(t, "made").Status.Canary; got == nil || got.Phase != v1alpha1.PhaseRolledBack {
		t.Fatalf("the canary is %+v, want it rolled back", got)
	}
	if _, _, err := r.store.Commit(t.Context(), store.Op{Kind: store.Delete, Key: store.Key{Resource: v1alpha1.Policies, Name: "made"}}); err != nil {
		t.Fatal(err)
	}
	r.Load(t.Context())
	by := map[int]int{}
	for name, digest := range digests {
		by[feasible[name]]++
		p, release, err := r.Scheduling().OpenDigest(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		pod := snapshot.NewPod(clustertest.Pod(name, "10m", "1Mi", nil))
		trace := schedule.Trace{Pod: pod, Digest: digest, Seed: 1}
		is, err := schedule.Redo(t.Context(), p, r.reasons, r.cluster, &trace)
		release()
		if err != nil || is.Feasible != feasible[name] {
			t.Errorf("%s could go to %d nodes, and now to %d, %v", name, feasible[name], is.Feasible, err)
		}
	}
	if by[2] == 0 || by[4] == 0 {
		t.Errorf("by how many nodes could take them, pods are %v: want some of the canary's, and some of the other's", by)
	}
}
