package interpodaffinity

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestScore(t *testing.T) {
	t.Parallel()
	web := map[string]string{"app": "web"}
	terms := func(selector map[string]string, weight int32) []policytest.Term {
		return []policytest.Term{{Selector: selector, Topology: "zone", Weight: weight}}
	}
	table := policytest.Table{
		Policy: "InterPodAffinityPriority",
		Nodes: []policytest.Node{
			{Name: "a", Labels: map[string]string{"zone": "a"}},
			{Name: "b", Labels: map[string]string{"zone": "b"}},
			{Name: "bare"},
		},
		Placed: []policytest.Placed{
			{Node: "a", Pod: policytest.Pod{Labels: web}},
			{Node: "a", Pod: policytest.Pod{Labels: web}},
			{Node: "b", Pod: policytest.Pod{PreferredAffinity: terms(map[string]string{"app": "api"}, 7)}},
			{Node: "b", Pod: policytest.Pod{PreferredAntiAffinity: terms(map[string]string{"app": "batch"}, 5)}},
			{Node: "b", Pod: policytest.Pod{Affinity: terms(map[string]string{"app": "api"}, 0)}},
		},
		Cases: []policytest.Case{
			{Name: "a plain pod", Scores: map[string]int64{"a": 0, "b": 0}},
			{
				Name: "preferred terms count each pod", Pod: policytest.Pod{PreferredAffinity: terms(web, 10)},
				Scores: map[string]int64{"a": 20, "b": 0, "bare": 0},
			},
			{
				Name: "anti-affinity counts against", Pod: policytest.Pod{PreferredAntiAffinity: terms(web, 10)},
				Scores: map[string]int64{"a": -20, "b": 0},
			},
			{
				Name: "others' terms count too, required ones by their weight", Pod: policytest.Pod{Labels: map[string]string{"app": "api"}},
				Scores: map[string]int64{"a": 0, "b": 8},
			},
			{
				Name: "others' anti-affinity counts against", Pod: policytest.Pod{Labels: map[string]string{"app": "batch"}},
				Scores: map[string]int64{"a": 0, "b": -5},
			},
		},
	}
	policytest.Run(t, table)
	table.Config = `{"hardPodAffinityWeight":50}`
	table.Cases = []policytest.Case{{
		Name: "another weight", Pod: policytest.Pod{Labels: map[string]string{"app": "api"}},
		Scores: map[string]int64{"b": 57},
	}}
	policytest.Run(t, table)
	table.Config = `{"ignorePreferredTermsOfExistingPods":true}`
	table.Cases[0].Name, table.Cases[0].Scores = "others are ignored", map[string]int64{"b": 0}
	policytest.Run(t, table)
	policytest.Refuses(t, "InterPodAffinityPriority", `{"hardPodAffinityWeight":101}`)
}
