package main

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestRackSpread(t *testing.T) {
	t.Parallel()
	in := func(name, rack string) policytest.Node {
		return policytest.Node{Name: name, Labels: map[string]string{"rack": rack}}
	}
	web := policytest.Pod{Namespace: "ns", Labels: map[string]string{"app": "web"}}
	other := policytest.Pod{Namespace: "other", Labels: map[string]string{"app": "web"}}
	policytest.Run(t, policytest.Table{
		Policy: "RackSpread",
		Nodes:  []policytest.Node{in("a1", "a"), in("a2", "a"), in("b1", "b"), in("c1", "c"), {Name: "loose"}},
		Placed: []policytest.Placed{
			{Node: "a1", Pod: web}, {Node: "a2", Pod: web}, {Node: "b1", Pod: web}, {Node: "c1", Pod: other}, {Node: "loose", Pod: web},
		},
		Cases: []policytest.Case{
			{
				Name: "the raw score counts the application's pods in the rack", Pod: web,
				Scores: map[string]int64{"a1": 2, "a2": 2, "b1": 1, "c1": 0, "loose": 2},
			},
			{
				Name: "another namespace is another application", Pod: other,
				Scores: map[string]int64{"a1": 0, "b1": 0, "c1": 1, "loose": 1},
			},
		},
	})
	policytest.Refuses(t, "RackSpread", `{"racks":"rack"}`)
}
