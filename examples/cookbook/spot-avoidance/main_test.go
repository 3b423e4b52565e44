package main

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestSpotAvoidance(t *testing.T) {
	t.Parallel()
	const refused = "workload must not run on a spot node"
	policytest.Run(t, policytest.Table{
		Policy: "SpotAvoidance",
		Nodes: []policytest.Node{
			{Name: "steady", Labels: map[string]string{"node.example.test/lifecycle": "on-demand"}},
			{Name: "spot", Labels: map[string]string{"node.example.test/lifecycle": "spot"}},
			{Name: "plain"},
		},
		Cases: []policytest.Case{
			{
				Name: "a critical workload stays off spot nodes",
				Pod:  policytest.Pod{Labels: map[string]string{"workload-class": "critical"}},
				Want: map[string]string{"steady": "", "spot": refused, "plain": ""},
			},
			{
				Name: "any other may run there",
				Pod:  policytest.Pod{Labels: map[string]string{"workload-class": "batch"}},
				Want: map[string]string{"steady": "", "spot": ""},
			},
		},
	})
	policytest.Refuses(t, "SpotAvoidance", `{"classes":"critical"}`)
}
