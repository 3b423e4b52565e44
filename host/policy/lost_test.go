package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/store"
)

// profileSays is what the default profile's condition Live tells.
func (r *rig) profileSays(t *testing.T) string {
	t.Helper()
	o, ok := r.store.Get(store.Key{Resource: v1alpha1.Profiles, Name: "default"})
	if !ok {
		t.Fatal("there is no profile")
	}
	return meta.FindStatusCondition(o.(*v1alpha1.Profile).Status.Conditions, v1alpha1.ConditionLive).Message
}

// drop takes a module away, bytes and all.
func (r *rig) drop(t *testing.T, name string) {
	t.Helper()
	if _, _, err := r.store.Commit(t.Context(), store.Op{Kind: store.Delete, Key: store.Key{Resource: v1alpha1.Modules, Name: name}}); err != nil {
		t.Fatal(err)
	}
	if err := r.store.DeleteBlob(t.Context(), strings.Replace(name, "-", ":", 1)); err != nil {
		t.Fatal(err)
	}
}

// What a predicate kept out must not come in because a restart finds its module
// gone, or its key withdrawn.
func TestAPredicateThatCannotBeLoadedAnyMoreFailsByItsMode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		mode    v1alpha1.FailureMode
		refused int
		says    string
	}{
		{"closed: it refuses all", "", 5, "all pods are refused by made: no revision can be loaded"},
		{"open: it admits all", v1alpha1.Open, 0, "without made: not live"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.withNodes(4)
			wasm := guest{Name: "made", Version: "1", Mask: 1}.Bytes()
			name := r.upload(t, wasm)
			r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Module, s.FailureMode = name, c.mode })
			r.join(t, "made", "predicate")
			before := r.policy(t, "made").Status
			r.drop(t, name)
			again := r.restarted(t)
			is := again.policy(t, "made").Status
			if is.Phase != v1alpha1.PhaseRefused || is.Live != "" || cmp.Diff(before.Current, is.Current) != "" {
				t.Errorf("it is %s, live %q, current %+v; want it refused and what it was known", is.Phase, is.Live, is.Current)
			}
			if says := again.profileSays(t); says != c.says {
				t.Errorf("the profile says %q, want %q", says, c.says)
			}
			if refused := again.placed(t, 0, 5); refused != c.refused {
				t.Errorf("%d of 5 pods were refused, want %d", refused, c.refused)
			}
			again.upload(t, wasm)
			again.Load(t.Context())
			is = again.policy(t, "made").Status
			if is.Phase != v1alpha1.PhaseLive || cmp.Diff(before.Current, is.Current) != "" || len(is.History) != 0 {
				t.Errorf("with its module back it is %s, current %+v, history %+v", is.Phase, is.Current, is.History)
			}
			if refused := again.placed(t, 5, 5); refused != 0 {
				t.Errorf("with its module back, %d of 5 pods were refused", refused)
			}
		})
	}
}

func TestAPolicyStaysOfItsKind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(4)
	old := r.upload(t, guest{Name: "made", Version: "1", Refuse: 0}.Bytes()) // refuses all
	score := r.upload(t, guest{Name: "made", Version: "2", Kind: "priority"}.Bytes())
	r.put(t, "made", withModule(old))
	r.join(t, "made", "predicate")
	for i, restart := range []bool{false, true} {
		p := r.put(t, "made", withModule(score))
		if restart {
			r = r.restarted(t)
			p = r.policy(t, "made")
		}
		if p.Status.Phase != v1alpha1.PhaseRefused || p.Status.Kind != "predicate" || !strings.Contains(p.Status.Message, "is a priority, and the policy a predicate") {
			t.Errorf("restart %t: a priority in a predicate's place: %s %s: %s", restart, p.Status.Kind, p.Status.Phase, p.Status.Message)
		}
		if refused := r.placed(t, 10*i, 3); refused != 3 {
			t.Errorf("restart %t: the predicate decides no more: %d of 3 pods were refused", restart, refused)
		}
	}
	if _, err := r.Vary(t.Context(), []trial.Variation{{Name: "made", Module: score}}); !errors.Is(err, module.ErrRefused) {
		t.Errorf("rehearsed in a predicate's place, a priority is told %v", err)
	}
	p := r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Module, s.Canary = old, canaryOf(score, 100, "") })
	if c := p.Status.Canary; c == nil || c.Reason != v1alpha1.ReasonRefused || !strings.Contains(c.Message, "is a priority, and the policy a predicate") {
		t.Errorf("a priority as the canary of a predicate: %+v", c)
	}
	r.join(t, "LeastRequestedPriority", "predicate")
	if says := r.profileSays(t); says != "in vain LeastRequestedPriority, a priority: listed as what it is not" {
		t.Errorf("the profile says %q of a priority among its predicates", says)
	}
}

func TestACanaryWhoseModuleComesLaterBegins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(2)
	r.put(t, "made", withModule(r.upload(t, guest{Name: "made", Version: "1", Refuse: -1}.Bytes())))
	r.join(t, "made", "predicate")
	wasm := guest{Name: "made", Version: "2", Refuse: -1}.Bytes()
	m, err := r.Modules.Inspect(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	p := r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Canary = canaryOf(m.Name, 100, "") })
	if c := p.Status.Canary; c == nil || c.Phase != v1alpha1.PhaseWaiting || !strings.Contains(c.Message, "upload it first") || len(p.Status.History) != 0 {
		t.Fatalf("without its module the canary is %+v, history %v", c, history(p))
	}
	r = r.restarted(t)
	if c := r.policy(t, "made").Status.Canary; c == nil || c.Phase != v1alpha1.PhaseWaiting {
		t.Fatalf("after a restart the canary is %+v", c)
	}
	r.upload(t, wasm)
	r.Load(t.Context())
	r.placed(t, 0, 3)
	r.Load(t.Context())
	p = r.policy(t, "made")
	if c := p.Status.Canary; c == nil || c.Phase != v1alpha1.PhaseRunning || p.Status.Differences == nil || p.Status.Differences.Pods != 3 {
		t.Errorf("with its module the canary is %+v, differences %+v", c, p.Status.Differences)
	}
}

func TestCanariesDoNotPushOutWhatOneCanGoBackTo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.upload(t, guest{Name: "made", Version: "1", Refuse: -1}.Bytes())
	r.put(t, "made", withModule(one))
	r.put(t, "made", withModule(r.upload(t, guest{Name: "made", Version: "2", Refuse: -1}.Bytes())))
	var p *v1alpha1.Policy
	for i := range 12 {
		bad := r.upload(t, guest{Name: "made", Version: fmt.Sprint("bad", i), BadOpen: true}.Bytes())
		p = r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Canary = canaryOf(bad, 10, "") })
	}
	if !slices.ContainsFunc(p.Status.History, func(v v1alpha1.PolicyRevision) bool { return v.Module == one }) || len(p.Status.History) > 10 {
		t.Errorf("history = %v, want the previous revision in it", history(p))
	}
}

func TestACanaryOfAnotherShareGoesOn(t *testing.T) {
	t.Parallel()
	r, p := tried(t, guest{Refuse: -1}, func(m string) *v1alpha1.Canary { return canaryOf(m, 10, "") })
	for _, share := range []int32{30, 60} {
		p = r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Canary.Share = share })
	}
	if p.Status.Canary.Phase != v1alpha1.PhaseRunning || len(p.Status.History) != 0 {
		t.Errorf("canary = %+v, history %v, want none of it rolled back", p.Status.Canary, history(p))
	}
}

func TestAShadowCountsOnAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(4)
	r.put(t, "made", func(s *v1alpha1.PolicySpec) {
		s.Module, s.Mode = r.upload(t, guest{Name: "made", Version: "1", Mask: 1, Refuse: 0}.Bytes()), v1alpha1.Shadow
	})
	r.join(t, "made", "predicate")
	r.placed(t, 0, 10)
	r.Load(t.Context())
	r = r.restarted(t)
	r.placed(t, 10, 5)
	r.Load(t.Context())
	if d := r.policy(t, "made").Status.Differences; d == nil || d.Pods != 15 || d.Refused != 30 {
		t.Errorf("differences = %+v, want those of 15 pods", d)
	}
}

// What decided within large limits may fail within those that it had before.
func TestADecisionIsDerivedAgainWithinTheLimitsThatItHad(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := r.upload(t, guest{Name: "made", Version: "1", Refuse: -1}.Bytes())
	r.put(t, "made", withModule(name))
	r.join(t, "made", "predicate")
	limits := func() *v1alpha1.PolicyLimits {
		t.Helper()
		for _, p := range r.Scheduling().Profiles["default-scheduler"].Digest().Policies {
			if p.Name != "made" {
				continue
			}
			object, _, err := r.Provenance(t.Context(), p.Identity)
			if err != nil {
				t.Fatal(err)
			}
			return object.Spec.Limits
		}
		t.Fatal("the policy is in no profile")
		return nil
	}
	for _, want := range []*v1alpha1.PolicyLimits{nil, {CallMilliseconds: 50}, {MemoryBytes: 32 << 20}, nil} {
		r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Limits = want })
		if diff := cmp.Diff(want, limits()); diff != "" {
			t.Errorf("limits that its decisions are derived again with (-want +got):\n%s", diff)
		}
	}
}

func TestAShadowThatIsNamedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(4)
	r.put(t, "made", func(s *v1alpha1.PolicySpec) {
		s.Module, s.Mode = r.upload(t, guest{Name: "made", Version: "1", Mask: 1, Refuse: 0}.Bytes()), v1alpha1.Shadow
	})
	r.join(t, "made", "predicate")
	r.join(t, "made", "priority")
	r.decide(t, clustertest.Pod("pod", "10m", "1Mi", nil))
	r.Load(t.Context())
	if d := r.policy(t, "made").Status.Differences; d == nil || d.Pods != 1 || d.Refused != 2 {
		t.Errorf("differences = %+v, want those of one pod", d)
	}
}
