package explain_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
)

// without is the default profile without one of its predicates.
func without(s *schedule.Scheduler, name string) *framework.LiveSet {
	return policytest.Live(8, func() *framework.Profile {
		p := policytest.Default(s.Reasons())
		for i := range p.Predicates {
			if p.Predicates[i].Policy.Info().Name == name {
				p.Predicates = append(p.Predicates[:i:i], p.Predicates[i+1:]...)
				break
			}
		}
		return p
	})
}

func whole(s *schedule.Scheduler) *framework.LiveSet {
	return policytest.Live(8, func() *framework.Profile { return policytest.Default(s.Reasons()) })
}

func TestARehearsalTellsWhatWouldHaveGoneElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 0)
		c.put("nodes", policytest.Node("ssd", "2", "8Gi", 110, func(n *v1.Node) { n.Labels["disk"] = "ssd" }), policytest.Node("big", "64", "64Gi", 110, nil))
		c.put("pods", policytest.Pod("picky", "1", "1Gi", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
		decided(t, s, "picky", schedule.Placed)
		c.put("pods", policytest.Pod("plain", "100m", "1Gi", nil))
		decided(t, s, "plain", schedule.Placed)
		c.put("pods", policytest.Pod("choosy", "1", "1Gi", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "none"} }))
		decided(t, s, "choosy", schedule.Refused)
		// What came later does not matter to a decision.
		c.put("nodes", policytest.Node("huge", "640", "640Gi", 110, nil))
		c.put("pods", policytest.Pod("later", "1", "1Gi", nil))
		decided(t, s, "later", schedule.Placed)

		all := map[string]bool{whole(s).Profiles["default-scheduler"].Name: true}
		rehearse := func(live, varied *framework.LiveSet) *explain.Rehearsal {
			r, err := explain.Rehearse(t.Context(), s, explain.Variant{Live: live, Varied: varied, Profiles: all}, 100)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		lines := func(r *explain.Rehearsal) (all []string) {
			for _, ch := range r.Changes {
				all = append(all, fmt.Sprintf("%s: %s -> %s: %s", ch.Pod, ch.Was, ch.Would, ch.Why))
			}
			return all
		}
		if r := rehearse(whole(s), whole(s)); r.Decisions != 4 || r.Changed != 0 {
			t.Errorf("the live set again: %+v, want 4 decisions as they were", r)
		}
		want := []string{
			"picky: ssd -> big: MatchNodeSelector no longer refuses big (node(s) didn't match Pod's node affinity/selector)",
			"choosy:  -> huge: MatchNodeSelector no longer refuses huge (node(s) didn't match Pod's node affinity/selector)",
		}
		if diff := cmp.Diff(want, lines(rehearse(whole(s), without(s, "MatchNodeSelector")))); diff != "" {
			t.Errorf("without the selector (-want +got):\n%s", diff)
		}
		want = []string{
			"picky: big -> ssd: MatchNodeSelector refuses big: node(s) didn't match Pod's node affinity/selector",
			"choosy: huge -> : MatchNodeSelector refuses huge: node(s) didn't match Pod's node affinity/selector",
		}
		if diff := cmp.Diff(want, lines(rehearse(without(s, "MatchNodeSelector"), whole(s)))); diff != "" {
			t.Errorf("with it again (-want +got):\n%s", diff)
		}
		none, err := explain.Rehearse(t.Context(), s, explain.Variant{Live: whole(s), Varied: whole(s)}, 100)
		if err != nil || none.Decisions != 0 || none.Note == "" {
			t.Errorf("a rehearsal of no profile = %+v, %v", none, err)
		}
	})
}

func TestARehearsalSaysWhatLiesOutsideTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := run(t, c, 128<<10)
		c.put("nodes", policytest.Node("a", "64", "64Gi", 10_000, nil))
		for i := range 3000 {
			c.put("pods", policytest.Pod(fmt.Sprint("p", i), "1m", "1Mi", nil))
		}
		decided(t, s, "p2999", schedule.Placed)
		all := map[string]bool{whole(s).Profiles["default-scheduler"].Name: true}
		r, err := explain.Rehearse(t.Context(), s, explain.Variant{Live: whole(s), Varied: whole(s), Profiles: all}, 3000)
		if err != nil || r.Outside == 0 || r.Decisions == 0 || r.Outside+r.Decisions != 3000 || r.Changed != 0 {
			t.Errorf("rehearsal = %+v, %v, want some of 3,000 decisions outside the log", r, err)
		}
	})
}
