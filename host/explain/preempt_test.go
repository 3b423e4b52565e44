package explain_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
)

func priority(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }

// crowded is a node full of two pods, one of which a budget protects, and an
// urgent pod for which both must go.
func crowded(t *testing.T) (*cluster, *schedule.Scheduler, schedule.Trace) {
	t.Helper()
	c := newCluster()
	s := run(t, c, 0)
	c.put("nodes", policytest.Node("a", "2", "8Gi", 110, nil))
	c.put("poddisruptionbudgets.policy", &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guard"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
	})
	c.put("pods", policytest.Pod("plain", "1", "1Gi", priority(1)), policytest.Pod("guarded", "1", "1Gi", func(p *v1.Pod) {
		priority(2)(p)
		p.Labels = map[string]string{"app": "guarded"}
	}))
	decided(t, s, "plain", schedule.Placed)
	decided(t, s, "guarded", schedule.Placed)
	c.put("pods", policytest.Pod("urgent", "2", "1Gi", priority(9)))
	trace := decided(t, s, "urgent", schedule.Refused)
	return c, s, trace
}

func TestAPreemptionIsExplainedToAllWhomItConcerns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s, made := crowded(t)
		room := &explain.Room{
			Decision: made.Number, For: "default/urgent", Priority: 9, Node: "a", Victims: []explain.Victim{
				{Namespace: "default", Pod: "guarded", Priority: 2, Breaks: []string{"guard"}}, {Namespace: "default", Pod: "plain", Priority: 1},
			},
		}
		report := func(pod string) (*explain.Report, string) {
			t.Helper()
			r, err := explain.Pod(t.Context(), s, "default", pod, explain.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := r.Write(&text, explain.Page{}); err != nil {
				t.Fatal(err)
			}
			return r, strings.Join(strings.Fields(text.String()), " ")
		}
		is := func(what string, got *explain.Room) {
			t.Helper()
			if diff := cmp.Diff(room, got, cmpopts.IgnoreFields(explain.Room{}, "At")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		r, text := report("urgent")
		is("room for the urgent pod", r.Room)
		for _, want := range []string{
			fmt.Sprintf("Room: was made on a by decision %d, by preempting what has a lower priority than 9; it goes there when they have ended", made.Number),
			"default/guarded, priority 2, against PodDisruptionBudget guard, since there was no other room default/plain, priority 1 ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the urgent pod's explanation lacks %q:\n%s", want, text)
			}
		}
		c.letGo(t, 2)
		decided(t, s, "urgent", schedule.Placed)
		r, text = report("urgent")
		is("room that the urgent pod has taken", r.Room)
		if !strings.Contains(text, "it waited for them to end") || r.Node != "a" || !r.Decision.Same {
			t.Errorf("the urgent pod has its place:\n%s", text)
		}
		r, text = report("guarded")
		is("why the guarded pod is gone", r.PreemptedBy)
		want := fmt.Sprintf("Preempted: by decision %d, to make room on a for default/urgent of priority 9 (this one has 2), against PodDisruptionBudget guard, since", made.Number)
		if r.State != "preempted" || !strings.Contains(text, want) {
			t.Errorf("the guarded pod is %s, want %q:\n%s", r.State, want, text)
		}
	})
}

// A reader who may get a pod of his own learns nothing of pods of others by it.
func TestAnExplanationNamesNoPodsThatItsReaderMayNotList(t *testing.T) {
	t.Parallel()
	room := func() *explain.Room {
		return &explain.Room{For: "secret/boss", Priority: 77, Node: "a", Victims: []explain.Victim{
			{Namespace: "mine", Pod: "own", Priority: 5}, {Namespace: "secret", Pod: "plan", Priority: 66, Breaks: []string{"guard"}},
		}}
	}
	read := func(r *explain.Report) string {
		t.Helper()
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := r.Write(&text, explain.Page{}); err != nil {
			t.Fatal(err)
		}
		return string(data) + text.String()
	}
	nothing := func(string) bool { return false }
	for name, r := range map[string]*explain.Report{
		"of what made room":     {Namespace: "mine", Pod: "urgent", Room: &explain.Room{For: "mine/urgent", Node: "a", Victims: room().Victims}},
		"of what was preempted": {Namespace: "mine", Pod: "own", PreemptedBy: room()},
	} {
		r.Veil(func(string) bool { return true })
		if said := read(r); !strings.Contains(said, "secret") || strings.Contains(said, "may not list") {
			t.Errorf("an explanation %s, to who may list all: %s", name, said)
		}
		r.Veil(func(namespace string) bool { return namespace == "mine" })
		said := read(r)
		for _, secret := range []string{"secret", "boss", "plan", "guard", "66", "77"} {
			if strings.Contains(said, secret) {
				t.Errorf("an explanation %s tells of %q: %s", name, secret, said)
			}
		}
		if !strings.Contains(said, "may not list") || !strings.Contains(said, `"pod":"own"`) {
			t.Errorf("an explanation %s does not say what it keeps back, or takes too much: %s", name, said)
		}
		r.Veil(nothing)
		if said := read(r); strings.Contains(said, `"pod":"own"`) != (r.Pod == "own") {
			t.Errorf("an explanation %s, to who may list nothing: %s", name, said)
		}
	}
}

func TestAPreemptionIsReplayedAfterItsVictimsAreLongGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, s, made := crowded(t)
		c.letGo(t, 2)
		decided(t, s, "urgent", schedule.Placed)
		c.put("nodes", policytest.Node("b", "64", "64Gi", 110, nil))
		for i := range 50 {
			c.put("pods", policytest.Pod(fmt.Sprint("p", i), "100m", "1Mi", nil))
		}
		decided(t, s, "p49", schedule.Placed)
		again, err := explain.Replay(t.Context(), s, made.Number)
		if err != nil || !again.Same || again.Note != "" || len(again.Differs) > 0 {
			t.Fatalf("replay = %+v, %v", again, err)
		}
		was, is := again.Room()
		if diff := cmp.Diff(was, is); diff != "" || len(is.Victims) != 2 {
			t.Errorf("room then and now (-then +now):\n%s", diff)
		}
	})
}

func TestARehearsalTellsWhomAnotherPolicyWouldPreempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 0)
		kept := func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "kept", Effect: v1.TaintEffectNoSchedule}} }
		tolerates := func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }
		c.put("nodes", policytest.Node("a", "1", "8Gi", 110, nil), policytest.Node("b", "1", "8Gi", 110, kept))
		c.put("pods", policytest.Pod("mid", "1", "1Gi", func(p *v1.Pod) {
			priority(5)(p)
			p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "a"}
		}), policytest.Pod("low", "1", "1Gi", func(p *v1.Pod) {
			tolerates(p)
			p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "b"}
		}))
		decided(t, s, "mid", schedule.Placed)
		decided(t, s, "low", schedule.Placed)
		c.put("pods", policytest.Pod("urgent", "1", "1Gi", priority(9)))
		made := decided(t, s, "urgent", schedule.Refused)
		c.letGo(t, 1)
		decided(t, s, "urgent", schedule.Placed)
		all := map[string]bool{whole(s).Profiles["default-scheduler"].Name: true}
		for _, tt := range []struct {
			name   string
			varied *framework.LiveSet
			want   []string
		}{
			{"the same policies", whole(s), nil},
			{"no taints", without(s, "PodToleratesNodeTaints"), []string{
				"urgent: it fits nowhere: room made on b by preempting default/low, and room made on a by preempting default/mid by the live policies",
			}},
		} {
			r, err := explain.Rehearse(t.Context(), s, explain.Variant{Live: whole(s), Varied: tt.varied, Profiles: all}, 100)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, ch := range r.Changes {
				if ch.Number == made.Number {
					got = append(got, ch.Pod+": "+ch.Why)
				}
			}
			if !slices.Equal(got, tt.want) || r.Decisions != 3 || r.Preempting != 1 || r.Remade != 0 {
				t.Errorf("%s: %q, want %q; %+v", tt.name, got, tt.want, r)
			}
		}
	})
}

// A policy that failed, then, fails again: what it left unsaid is not made up.
func TestADecisionInWhichAPolicyFailedIsReplayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reasons := framework.NewReasons(0)
		open := func() *framework.Profile {
			p := policytest.Default(reasons)
			p.Predicates[1].FailOpen = true
			return p
		}
		set := policytest.Live(1, open)
		broken := set.Profiles["default-scheduler"].Priorities[0].Policy.(*policytest.Native)
		broken.Fail = func() error { return policytest.ErrBroken }
		set.Profiles["default-scheduler"].Predicates[1].Policy.(*policytest.Native).Fail = broken.Fail
		c := newCluster()
		s, err := schedule.New(schedule.Config{Source: c, Binder: c, Reasons: reasons, Set: func() *framework.LiveSet { return set }, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		serve(t, s)
		for i := range 9 {
			c.put("nodes", policytest.Node(fmt.Sprint("n", i), fmt.Sprint(1+i), "8Gi", 110, nil))
		}
		for i := range 12 {
			c.put("pods", policytest.Pod(fmt.Sprint("p", i), "300m", "1Mi", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "such"} }))
		}
		decided(t, s, "p11", schedule.Placed)
		for _, trace := range s.Traces().Last(12) {
			again, err := explain.Replay(t.Context(), s, trace.Number)
			if err != nil || !again.Same || len(trace.Failures) != 2 {
				t.Errorf("replay of %d, in which %v failed: %+v, %v", trace.Number, trace.Failures, again.Differs, err)
			}
		}
		r, err := explain.Pod(t.Context(), s, "default", "p11", explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		const want = "these policies failed, and had no part in it: MatchNodeSelector, LeastRequestedPriority"
		if !strings.Contains(r.Note, want) {
			t.Errorf("explain notes %q, want %q in it", r.Note, want)
		}
	})
}

// Records of older hosts, and names that modules have, may hold anything.
func TestAnExplanationDoesNotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	r := &explain.Report{Namespace: "a", Pod: "p", State: "waiting", Message: "\x1b[2Jno\r room", Nodes: 1, Rows: []explain.Row{
		{Node: "n", Refusals: []explain.Refusal{{Predicate: "\x1b]0;x\x07", Reason: "\u009b31mno"}}},
	}}
	for _, page := range []explain.Page{{}, {Columns: 80}, {Wide: true}} {
		var text strings.Builder
		if err := r.Write(&text, page); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(text.String(), func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
			t.Errorf("an explanation holds %q", text.String()[i:])
		}
	}
	if got := (explain.Page{Columns: 80}).Wrapped("\x1b[31mred\r"); got != "?[31mred" {
		t.Errorf("Wrapped = %q", got)
	}
}
