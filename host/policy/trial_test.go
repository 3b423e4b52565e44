package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// When a canary is rolled back is when somebody wants to know what it did.
func TestARolledBackCanaryStillTellsHowItDiffered(t *testing.T) {
	t.Parallel()
	r, p := tried(t, guest{Mask: 1, Refuse: 1}, func(m string) *v1alpha1.Canary { return canaryOf(m, 50, "5%") })
	d := p.Status.Differences
	if p.Status.Canary.Phase != v1alpha1.PhaseRolledBack || d == nil || d.Pods == 0 || d.Refused == 0 || len(d.Examples) == 0 {
		t.Fatalf("canary = %+v, differences = %+v, want what made it end", p.Status.Canary, d)
	}
	r.Load(t.Context())
	if again := r.policy(t, "made"); cmp.Diff(d, again.Status.Differences) != "" {
		t.Errorf("differences change after the end: %+v", again.Status.Differences)
	}
}

func TestACanaryThatNeverRanShowsNoFormerDifferences(t *testing.T) {
	t.Parallel()
	r, _ := tried(t, guest{Mask: 1, Refuse: 1}, func(m string) *v1alpha1.Canary { return canaryOf(m, 50, "") })
	bad := r.upload(t, guest{Name: "made", Version: "bad", BadOpen: true}.Bytes())
	p := r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Canary = canaryOf(bad, 50, "") })
	if p.Status.Canary.Reason != v1alpha1.ReasonRefused || p.Status.Differences != nil {
		t.Errorf("canary = %+v, differences = %+v, want none", p.Status.Canary, p.Status.Differences)
	}
}

func TestARolledBackCanaryIsNotTriedAgainForAChangeOfMode(t *testing.T) {
	t.Parallel()
	r, _ := tried(t, guest{Mask: 1, Refuse: 1}, func(m string) *v1alpha1.Canary { return canaryOf(m, 50, "5%") })
	for _, mode := range []v1alpha1.Mode{v1alpha1.Shadow, v1alpha1.Off, v1alpha1.Enforce} {
		p := r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Mode = mode })
		if c := p.Status.Canary; c == nil || c.Phase != v1alpha1.PhaseRolledBack || len(p.Status.History) != 1 {
			t.Errorf("in mode %s the canary is %+v, history %v, want it rolled back as before", mode, c, history(p))
		}
	}
}

// A module that is pushed once more after a roll-back goes forth, not back: what
// it replaces stays something that one can go back to.
func TestGoingForthAgainAfterARollBackIsAPush(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.upload(t, guest{Name: "made", Version: "1", Refuse: -1}.Bytes()), r.upload(t, guest{Name: "made", Version: "2", Refuse: -1}.Bytes())
	var p *v1alpha1.Policy
	for _, m := range []string{one, two, one, two} {
		p = r.put(t, "made", withModule(m))
	}
	if p.Status.Current.Reason != v1alpha1.CamePushed {
		t.Errorf("the second push of a module is %s", p.Status.Current.Reason)
	}
	if diff := cmp.Diff([]string{"RolledBack Replaced", "Pushed RolledBack", "Pushed Replaced"}, history(p)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	p = r.put(t, "made", withModule(one))
	if p.Status.Current.Reason != v1alpha1.CameRolledBack {
		t.Errorf("going back to it is %s", p.Status.Current.Reason)
	}
}

func TestCountsBeginAnewWithEachModeAndVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(4)
	made := func(version string, refuse int32) string {
		return r.upload(t, guest{Name: "made", Version: version, Mask: 1, Refuse: refuse}.Bytes())
	}
	old, young := made("1", -1), made("2", -1)
	r.put(t, "made", withModule(old))
	r.join(t, "made", "predicate")
	compared := func(pods int, change func(*v1alpha1.PolicySpec)) int64 {
		r.put(t, "made", change)
		r.placed(t, 0, pods)
		r.Load(t.Context())
		if d := r.policy(t, "made").Status.Differences; d != nil {
			return d.Pods
		}
		return 0
	}
	mode := func(m v1alpha1.Mode) func(*v1alpha1.PolicySpec) {
		return func(s *v1alpha1.PolicySpec) { s.Mode = m }
	}
	for _, step := range []struct {
		name   string
		pods   int
		change func(*v1alpha1.PolicySpec)
		want   int64
	}{
		{"a canary", 100, func(s *v1alpha1.PolicySpec) { s.Canary = &v1alpha1.Canary{Module: young, Share: 100} }, 100},
		{"the canary is promoted", 1, func(s *v1alpha1.PolicySpec) { s.Module, s.Canary = young, nil }, 100},
		{"and becomes a shadow", 3, mode(v1alpha1.Shadow), 3},
		{"decides again", 1, mode(v1alpha1.Enforce), 0},
		{"a shadow once more", 2, mode(v1alpha1.Shadow), 2},
		{"the previous version as a shadow", 4, withModule(old), 4},
		{"and back", 5, withModule(young), 5},
	} {
		if got := compared(step.pods, step.change); got != step.want {
			t.Errorf("%s: %d pods are compared, want %d", step.name, got, step.want)
		}
	}
}
