package balancedallocation

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestScore(t *testing.T) {
	t.Parallel()
	has := map[string]string{"cpu": "10", "memory": "10Gi"}
	nodes := []policytest.Node{
		{Name: "empty", Allocatable: has},
		{Name: "cpu heavy", Allocatable: has, Requested: map[string]string{"cpu": "8"}},
		{Name: "memory heavy", Allocatable: has, Requested: map[string]string{"memory": "8Gi"}},
		{Name: "nothing"},
	}
	cpu := policytest.Pod{Requests: map[string]string{"cpu": "2"}}
	policytest.Run(t, policytest.Table{
		Policy: "BalancedResourceAllocation", Nodes: nodes,
		Cases: []policytest.Case{
			// Without: 100, 60, 60. With: 90, 50, 70.
			{Name: "CPU alone", Pod: cpu, Scores: map[string]int64{"empty": 70, "cpu heavy": 70, "memory heavy": 80, "nothing": 75}},
			{Name: "in balance", Pod: policytest.Pod{Requests: map[string]string{"cpu": "1", "memory": "1Gi"}}, Scores: map[string]int64{"empty": 75, "cpu heavy": 75}},
			{Name: "no requests, no score", Scores: map[string]int64{"empty": 0, "cpu heavy": 0}},
		},
	})
	policytest.Run(t, policytest.Table{
		Policy: "BalancedResourceAllocation", Nodes: nodes,
		Config: `{"resources":[{"name":"cpu"},{"name":"memory"},{"name":"ephemeral-storage"}]}`,
		Cases: []policytest.Case{
			{Name: "a third resource that no node has", Pod: cpu, Scores: map[string]int64{"empty": 70, "memory heavy": 80}},
		},
	})
}
