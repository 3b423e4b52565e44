package podtopologyspread

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

// A table asks for one node at a time, so each is the only one that is rated:
// raw = max = min, and the score 100, but for nodes that lack a key.
func TestNodesWithoutTheKey(t *testing.T) {
	t.Parallel()
	web := map[string]string{"app": "web"}
	policytest.Run(t, policytest.Table{
		Policy:   "PodTopologySpreadPriority",
		Nodes:    []policytest.Node{{Name: "a", Labels: map[string]string{"zone": "a"}}, {Name: "bare"}},
		Services: []policytest.Service{{Name: "web", Selector: web}},
		Cases: []policytest.Case{
			{Name: "no constraint and nothing that selects", Scores: map[string]int64{"a": 0, "bare": 0}},
			{
				Name:   "a node without the key is the last",
				Pod:    policytest.Pod{Spread: []policytest.Spread{{Topology: "zone", MaxSkew: 1, Soft: true, Selector: web}}},
				Scores: map[string]int64{"a": 100, "bare": 0},
			},
			{
				Name: "by default nodes may lack the keys", Pod: policytest.Pod{Labels: web},
				Scores: map[string]int64{"a": 100, "bare": 100},
			},
		},
	})
	policytest.Run(t, policytest.Table{
		Policy:   "PodTopologySpreadPriority",
		Config:   `{"defaultingType":"List","defaultConstraints":[{"topologyKey":"zone","maxSkew":1}]}`,
		Nodes:    []policytest.Node{{Name: "a", Labels: map[string]string{"zone": "a"}}, {Name: "bare"}},
		Services: []policytest.Service{{Name: "web", Selector: web}},
		Cases: []policytest.Case{{
			Name: "defaults of one's own ask for the key", Pod: policytest.Pod{Labels: web},
			Scores: map[string]int64{"a": 100, "bare": 0},
		}},
	})
	for _, config := range []string{
		`{"defaultConstraints":[{"topologyKey":"zone","maxSkew":1}]}`, `{"defaultingType":"Some"}`,
		`{"defaultingType":"List","defaultConstraints":[{"topologyKey":"zone"}]}`,
		`{"defaultingType":"List","defaultConstraints":[{"topologyKey":"zone","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}]}`,
	} {
		policytest.Refuses(t, "PodTopologySpreadPriority", config)
	}
}
