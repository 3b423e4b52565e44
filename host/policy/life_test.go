package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/wire"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/store"
)

// withNodes gives the rig n roomy nodes.
func (r *rig) withNodes(n int) {
	for i := range n {
		r.cluster.UpsertNode(clustertest.Node(fmt.Sprint("n", i), "64", "256Gi", 1000, nil))
	}
}

// placed decides about n pods and counts those that found no node.
func (r *rig) placed(t testing.TB, from, n int) (refused int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		if got := r.decide(t, clustertest.Pod(fmt.Sprint("pod-", i), "10m", "1Mi", nil)); strings.Contains(got, "Slot:-1") {
			refused++
		}
	}
	return refused
}

func history(p *v1alpha1.Policy) []string {
	var all []string
	for _, r := range p.Status.History {
		all = append(all, r.Reason+" "+r.Left)
	}
	return all
}

func canaryOf(name string, share int32, refusals string) *v1alpha1.Canary {
	c := &v1alpha1.Canary{Module: name, Share: share}
	if refusals != "" {
		n := intstr.Parse(refusals)
		c.MaxRefusals = &n
	}
	return c
}

// tried is a rig with a policy that admits all, and what its canary became
// after pods came by.
func tried(t *testing.T, young guest, canary func(module string) *v1alpha1.Canary) (*rig, *v1alpha1.Policy) {
	t.Helper()
	r := newRig(t)
	r.withNodes(8)
	old := guest{Name: "made", Version: "old", Kind: young.Kind, Refuse: -1, Times: 1}
	young.Name, young.Version = "made", "young"
	r.put(t, "made", withModule(r.upload(t, old.Bytes())))
	r.join(t, "made", young.Kind)
	name := r.upload(t, young.Bytes())
	r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Canary = canary(name) })
	r.placed(t, 0, 100)
	r.Load(t.Context())
	return r, r.policy(t, "made")
}

func TestACanaryThatIsGoodIsPromoted(t *testing.T) {
	t.Parallel()
	r, p := tried(t, guest{Refuse: -1}, func(m string) *v1alpha1.Canary { return canaryOf(m, 30, "0") })
	if c := p.Status.Canary; c == nil || c.Phase != v1alpha1.PhaseRunning {
		t.Fatalf("canary = %+v, want it running", c)
	}
	d := p.Status.Differences
	if d == nil || d.Pods < 15 || d.Pods > 45 || d.Refused+d.Admitted+d.Scored != 0 {
		t.Errorf("differences = %+v, want about 30 pods of 100 compared, and none", d)
	}
	module := p.Spec.Canary.Module
	p = r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Module, s.Canary = s.Canary.Module, nil })
	if p.Status.Current.Module != module || p.Status.Current.Reason != v1alpha1.CamePromoted || p.Status.Canary != nil {
		t.Errorf("current = %+v, canary = %+v, want the canary promoted", p.Status.Current, p.Status.Canary)
	}
	if diff := cmp.Diff([]string{"Pushed Replaced"}, history(p)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if refused := r.placed(t, 100, 10); refused != 0 {
		t.Errorf("after the promotion %d of 10 pods found no node", refused)
	}
}

func TestACanaryIsRolledBackByItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		young    guest
		refusals string
		reason   string
	}{
		"it traps":                    {guest{Refuse: -1, Traps: 3}, "", v1alpha1.ReasonTrapped},
		"it spins":                    {guest{Refuse: -1, Traps: 3, Spins: true}, "", v1alpha1.ReasonFuelSpent},
		"it refuses more than it may": {guest{Mask: 1, Refuse: 1}, "5%", v1alpha1.ReasonRefuses},
		"a priority traps":            {guest{Kind: "priority", Traps: 2}, "", v1alpha1.ReasonTrapped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := tried(t, c.young, func(m string) *v1alpha1.Canary { return canaryOf(m, 50, c.refusals) })
			is := p.Status.Canary
			if is == nil || is.Phase != v1alpha1.PhaseRolledBack || is.Reason != c.reason || is.Message == "" {
				t.Fatalf("canary = %+v, want it rolled back: %s", is, c.reason)
			}
			if p.Status.Phase != v1alpha1.PhaseLive {
				t.Errorf("the policy is %s: %s", p.Status.Phase, p.Status.Message)
			}
			if diff := cmp.Diff([]string{"Canary AutoRolledBack"}, history(p)); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
			healthy := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionCanary)
			if healthy == nil || healthy.Status != "False" || healthy.Reason != c.reason || !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionLive) {
				t.Errorf("conditions = %+v", p.Status.Conditions)
			}
			if refused := r.placed(t, 100, 40); refused != 0 {
				t.Errorf("%d of 40 pods found no node after the roll-back", refused)
			}
			r.Load(t.Context())
			if again := r.policy(t, "made"); again.Status.Canary.Since != is.Since || len(again.Status.History) != 1 {
				t.Errorf("the canary was tried again: %+v", again.Status)
			}
			// Another trial is another matter.
			p = r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Canary.Share = 10 })
			if p.Status.Canary.Phase != v1alpha1.PhaseRunning {
				t.Errorf("canary of another share = %+v, want it running", p.Status.Canary)
			}
		})
	}
}

func TestACanaryThatMayRefuseGoesOn(t *testing.T) {
	t.Parallel()
	_, p := tried(t, guest{Mask: 1, Refuse: 1}, func(m string) *v1alpha1.Canary { return canaryOf(m, 100, "") })
	d := p.Status.Differences
	if p.Status.Canary.Phase != v1alpha1.PhaseRunning || d == nil || d.Pods != 100 || d.Refused != 400 || d.RefusedPods != 100 || d.Admitted != 0 {
		t.Fatalf("canary = %+v, differences = %+v, want half of 8 nodes refused to each of 100 pods", p.Status.Canary, d)
	}
	want := v1alpha1.Difference{Pod: "default/pod-0", Node: "n1", Live: "admits", Trial: "refuses: version young says no"}
	if len(d.Examples) == 0 || d.Examples[0] != want {
		t.Errorf("examples = %+v, want %+v first", d.Examples, want)
	}
}

func TestACanaryThatScoresOtherwiseSaysByHowMuch(t *testing.T) {
	t.Parallel()
	_, p := tried(t, guest{Kind: "priority", Times: -1}, func(m string) *v1alpha1.Canary { return canaryOf(m, 100, "") })
	d := p.Status.Differences
	// The old one scores 0 to 7, the young one, since scores end at 0, nothing.
	if d == nil || d.Scored != 100 || d.ScoreDelta == nil || d.ScoreDelta.Nodes != 800 || d.ScoreDelta.Sum != -2800 || d.ScoreDelta.Least != -7 || d.ScoreDelta.Most != 0 {
		t.Errorf("differences = %+v, %+v", d, d.ScoreDelta)
	}
}

func TestSharesAreWithinEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(4)
	for i, share := range []int32{20, 70} {
		name := fmt.Sprint("made", i)
		r.put(t, name, func(s *v1alpha1.PolicySpec) {
			s.Module = r.upload(t, guest{Name: name, Version: "old", Refuse: -1}.Bytes())
			s.Canary = canaryOf(r.upload(t, guest{Name: name, Version: "young", Refuse: -1}.Bytes()), share, "")
		})
		r.join(t, name, "predicate")
	}
	r.placed(t, 0, 400)
	r.Load(t.Context())
	for i, share := range []int64{20, 70} {
		p := r.policy(t, fmt.Sprint("made", i))
		if d := p.Status.Differences; d == nil || d.Pods < share*3 || d.Pods > share*5 {
			t.Errorf("a canary of %d %% decided %+v of 400 pods", share, d)
		}
	}
}

func TestACanaryThatDoesNotLoadLeavesThePolicyLive(t *testing.T) {
	t.Parallel()
	_, p := tried(t, guest{BadOpen: true}, func(m string) *v1alpha1.Canary { return canaryOf(m, 50, "") })
	if p.Status.Phase != v1alpha1.PhaseLive || p.Status.Canary.Reason != v1alpha1.ReasonRefused || !strings.Contains(p.Status.Canary.Message, "version young refuses") {
		t.Errorf("policy is %s, canary = %+v", p.Status.Phase, p.Status.Canary)
	}
	if diff := cmp.Diff([]string{"Canary AutoRolledBack"}, history(p)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestAShadowIsAskedBeforeItsPodCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// The pod fills its node: a shadow that saw it placed would refuse it.
	r.cluster.UpsertNode(clustertest.Node("n", "1", "1Gi", 10, nil))
	fits := r.policy(t, "PodFitsResources")
	r.put(t, "shadow", func(s *v1alpha1.PolicySpec) {
		s.Module, s.Entry, s.Mode = fits.Spec.Module, fits.Spec.Entry, v1alpha1.Shadow
	})
	r.join(t, "shadow", "predicate")
	r.decide(t, clustertest.Pod("whole", "1", "1Gi", nil))
	r.put(t, "shadow", func(*v1alpha1.PolicySpec) {})
	if d := r.policy(t, "shadow").Status.Differences; d == nil || d.Pods != 1 || d.Refused != 0 {
		t.Errorf("differences = %+v, want one pod, and none", d)
	}
}

func TestAShadowTellsWhatItWouldRefuse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(4)
	r.put(t, "made", func(s *v1alpha1.PolicySpec) {
		s.Module, s.Mode = r.upload(t, guest{Name: "made", Version: "1", Mask: 1, Refuse: 0}.Bytes()), v1alpha1.Shadow
	})
	r.join(t, "made", "predicate")
	if refused := r.placed(t, 0, 10); refused != 0 {
		t.Fatalf("a shadow refused %d pods", refused)
	}
	r.Load(t.Context())
	if d := r.policy(t, "made").Status.Differences; d == nil || d.Pods != 10 || d.RefusedPods != 10 || d.Refused != 20 || d.Examples[0].Node == "" {
		t.Errorf("differences = %+v, want half of 4 nodes refused to each of 10 pods", d)
	}
}

func TestHistoryTellsHowEachRevisionCameAndLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.upload(t, guest{Name: "made", Version: "1", Refuse: -1}.Bytes()), r.upload(t, guest{Name: "made", Version: "2", Refuse: -1}.Bytes())
	p := r.put(t, "made", withConfig(one, `{"a":1}`))
	if p.Status.Current.Reason != v1alpha1.CamePushed || len(p.Status.History) != 0 {
		t.Errorf("a new policy: %+v", p.Status)
	}
	r.put(t, "made", withConfig(one, `{"a":2}`))
	p = r.put(t, "made", withConfig(two, `{"a":2}`))
	if diff := cmp.Diff([]string{"Pushed Replaced", "Pushed Replaced"}, history(p)); diff != "" {
		t.Errorf("history after a new config and a new module (-want +got):\n%s", diff)
	}
	former := p.Status.History[0]
	if former.Module != one || string(former.Config.Raw) != `{"a":2}` || former.Until == nil {
		t.Errorf("previous revision = %+v", former)
	}
	p = r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Module, s.Config = former.Module, former.Config })
	if p.Status.Current.Reason != v1alpha1.CameRolledBack || p.Status.History[0].Module != two || p.Status.History[0].Left != v1alpha1.LeftRolledBack {
		t.Errorf("after going back: %+v", p.Status)
	}
	for i := range 30 {
		p = r.put(t, "made", withConfig(two, fmt.Sprintf(`{"a":%d}`, i+10)))
	}
	if len(p.Status.History) != 10 {
		t.Errorf("the history has %d entries, want the last 10", len(p.Status.History))
	}
}

func TestAPolicyWhoseModuleComesLaterGoesLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wasm := guest{Name: "made", Version: "1", Refuse: -1}.Bytes()
	m, err := r.Modules.Inspect(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.put(t, "made", withModule(m.Name)); p.Status.Phase != v1alpha1.PhaseRefused || !strings.Contains(p.Status.Message, "upload it first") {
		t.Fatalf("without its module the policy is %s: %s", p.Status.Phase, p.Status.Message)
	}
	r.upload(t, wasm)
	r.Load(t.Context())
	if p := r.policy(t, "made"); p.Status.Phase != v1alpha1.PhaseLive || p.Status.Message != "" {
		t.Errorf("with its module the policy is %s: %s", p.Status.Phase, p.Status.Message)
	}
}

// restarted is another loader over the same objects.
func (r *rig) restarted(t testing.TB) *rig {
	t.Helper()
	again := *r
	again.Loader = policy.NewLoader(r.Config)
	again.Load(t.Context())
	return &again
}

func TestARestartKeepsWhatBecameOfACanary(t *testing.T) {
	t.Parallel()
	r, p := tried(t, guest{Mask: 1, Refuse: 1}, func(m string) *v1alpha1.Canary { return canaryOf(m, 50, "5%") })
	again := r.restarted(t)
	if got := again.policy(t, "made"); got.Status.Canary.Phase != v1alpha1.PhaseRolledBack || len(got.Status.History) != len(p.Status.History) {
		t.Errorf("a canary that was rolled back is after a restart %+v", got.Status.Canary)
	}
	if refused := again.placed(t, 200, 40); refused != 0 {
		t.Errorf("it decides again: %d pods found no node", refused)
	}

	r, p = tried(t, guest{Refuse: -1}, func(m string) *v1alpha1.Canary { return canaryOf(m, 100, "5%") })
	again = r.restarted(t)
	again.placed(t, 200, 10)
	again.put(t, "made", func(*v1alpha1.PolicySpec) {})
	got := again.policy(t, "made")
	if got.Status.Canary.Phase != v1alpha1.PhaseRunning || got.Status.Canary.Since != p.Status.Canary.Since || got.Status.Differences.Pods != 110 {
		t.Errorf("a running canary is after a restart %+v, %+v, want 110 pods", got.Status.Canary, got.Status.Differences)
	}
}

// With many nodes a guest on trial is told a lot before it is asked anything.
func TestARestartPutsAQuarantinedPolicyOnTrial(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{2, 20 * wire.MaxBatch} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			t.Parallel()
			restartsOnTrial(t, nodes)
		})
	}
}

func restartsOnTrial(t *testing.T, nodes int) {
	t.Helper()
	r := newRig(t)
	r.withNodes(nodes)
	r.put(t, "made", withModule(r.upload(t, guest{Name: "made", Version: "1", Refuse: -1, Traps: -1}.Bytes())))
	r.join(t, "made", "predicate")
	r.placed(t, 0, 20)
	r.Load(t.Context())
	before := r.policy(t, "made")
	if before.Status.Phase != v1alpha1.PhaseQuarantined {
		t.Fatalf("a policy that traps is %s", before.Status.Phase)
	}
	again := r.restarted(t)
	if got := again.policy(t, "made"); got.Status.Phase != v1alpha1.PhaseQuarantined || got.Status.Message != before.Status.Message {
		t.Errorf("after a restart it is %s: %s, want it quarantined as before", got.Status.Phase, got.Status.Message)
	}
	// On trial, one failure is enough.
	again.placed(t, 100, 3)
	for _, f := range again.Figures() {
		if f.Name == "made" && (f.Failures != 1 || !f.Quarantined) {
			t.Errorf("figures = %+v, want one failure and the quarantine", f)
		}
	}
}

func TestEventsTellOfATrial(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var events []string
	r.Config.Event = func(about store.Object, kind, reason, _ string) {
		if about.GetName() == "made" {
			events = append(events, kind+" "+reason)
		}
	}
	r.withNodes(2)
	r.put(t, "made", withModule(r.upload(t, guest{Name: "made", Version: "1", Refuse: -1}.Bytes())))
	r.join(t, "made", "predicate")
	young := r.upload(t, guest{Name: "made", Version: "2", Refuse: -1, Traps: 1}.Bytes())
	r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Canary = canaryOf(young, 100, "") })
	r.placed(t, 0, 10)
	r.Load(t.Context())
	want := []string{"Normal Live", "Normal CanaryStarted", "Warning CanaryRolledBack"}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestWhatWasRefusedOnceIsRefusedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := r.upload(t, guest{Name: "made", Version: "1", Refuse: -1}.Bytes())
	bad := r.upload(t, guest{Name: "made", Version: "2", BadOpen: true}.Bytes())
	first := r.put(t, "made", withModule(good))
	for i := range 3 {
		if p := r.put(t, "made", withModule(bad)); p.Status.Phase != v1alpha1.PhaseRefused || p.Status.Live != first.Status.Live {
			t.Fatalf("round %d: a module that refuses its config is %s, live is %s", i, p.Status.Phase, p.Status.Live)
		}
		if p := r.put(t, "made", withModule(good)); p.Status.Phase != v1alpha1.PhaseLive || len(p.Status.History) != 0 {
			t.Fatalf("round %d: when it is withdrawn the policy is %s, history %v", i, p.Status.Phase, history(p))
		}
	}
}

// The mode is of the Policy, not of a module: it holds whatever is refused.
func TestAModeHoldsAtOnceThoughTheModuleIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withNodes(2)
	r.put(t, "made", withModule(r.upload(t, guest{Name: "made", Version: "1"}.Bytes()))) // refuses all
	r.join(t, "made", "predicate")
	if refused := r.placed(t, 0, 3); refused != 3 {
		t.Fatalf("%d of 3 pods were refused", refused)
	}
	r.put(t, "made", func(s *v1alpha1.PolicySpec) {
		s.Module, s.Mode = "sha256-"+strings.Repeat("0", 64), v1alpha1.Off
	})
	if refused := r.placed(t, 3, 3); refused != 0 {
		t.Errorf("a policy that is Off refused %d of 3 pods", refused)
	}
}

func TestAConfigThatItsSchemaRefusesSaysWhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	schema := `{"type":"object","properties":{"racks":{"type":"array","items":{"type":"integer"}}},"additionalProperties":false}`
	one := r.upload(t, guest{Name: "made", Version: "1", Refuse: -1, Schema: schema}.Bytes())
	before := r.put(t, "made", withConfig(one, `{"racks":[1]}`))
	if before.Status.Phase != v1alpha1.PhaseLive {
		t.Fatalf("a good config: %s: %s", before.Status.Phase, before.Status.Message)
	}
	after := r.put(t, "made", withConfig(one, `{"racks":[1,"two"]}`))
	if after.Status.Phase != v1alpha1.PhaseRefused || !strings.Contains(after.Status.Message, "spec.config.racks[1]: it is string, want integer") {
		t.Errorf("a bad config: %s: %s", after.Status.Phase, after.Status.Message)
	}
	if diff := cmp.Diff(before.Status.Current, after.Status.Current); diff != "" || after.Status.Live != before.Status.Live {
		t.Errorf("the live revision has changed (-before +after):\n%s", diff)
	}
}
