package selectorspread

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

// A table asks for one node at a time: it has the most pods itself, so that
// only those without any keep their score.
func TestScore(t *testing.T) {
	t.Parallel()
	web := map[string]string{"app": "web"}
	for _, policy := range []string{"SelectorSpreadPriority", "ServiceSpreadingPriority"} {
		policytest.Run(t, policytest.Table{
			Policy: policy,
			Nodes: []policytest.Node{
				{Name: "used"}, {Name: "free"}, {Name: "leaving"},
				{Name: "zoned", Labels: map[string]string{"topology.kubernetes.io/zone": "a"}},
			},
			Services: []policytest.Service{{Name: "web", Selector: web}, {Namespace: "other", Name: "web", Selector: web}},
			Placed: []policytest.Placed{
				{Node: "used", Pod: policytest.Pod{Labels: web}},
				{Node: "zoned", Pod: policytest.Pod{Labels: web}},
				{Node: "leaving", Pod: policytest.Pod{Labels: web}, Terminating: true},
				{Node: "free", Pod: policytest.Pod{Namespace: "other", Labels: web}},
			},
			Cases: []policytest.Case{
				{Name: "nothing selects the pod", Scores: map[string]int64{"free": 0}},
				{
					Name: "a pod of the service", Pod: policytest.Pod{Labels: web},
					Scores: map[string]int64{"used": 0, "free": 100, "leaving": 100, "zoned": 0},
				},
			},
		})
		policytest.Refuses(t, policy, `{"some":1}`)
	}
}
