package mostrequested

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestScore(t *testing.T) {
	t.Parallel()
	has := map[string]string{"cpu": "4", "memory": "8Gi", "pods": "10"}
	nodes := []policytest.Node{
		{Name: "empty", Allocatable: has},
		{Name: "half", Allocatable: has, Requested: map[string]string{"cpu": "1", "memory": "2Gi"}},
		{Name: "over", Allocatable: has, Requested: map[string]string{"cpu": "9", "memory": "9Gi"}},
		{Name: "nothing"},
		{Name: "no memory", Allocatable: map[string]string{"cpu": "4"}},
	}
	pod := policytest.Pod{Requests: map[string]string{"cpu": "1", "memory": "2Gi"}}
	policytest.Run(t, policytest.Table{
		Policy: "MostRequestedPriority", Nodes: nodes,
		Cases: []policytest.Case{
			{Name: "a quarter more", Pod: pod, Scores: map[string]int64{"empty": 25, "half": 50, "over": 100, "nothing": 0, "no memory": 25}},
			{Name: "defaults count for a pod without requests", Scores: map[string]int64{"empty": 2}},
		},
	})
	policytest.Run(t, policytest.Table{
		Policy: "MostRequestedPriority", Nodes: nodes,
		Config: `{"resources":[{"name":"cpu","weight":3},{"name":"example.com/x"}]}`,
		Cases: []policytest.Case{
			{Name: "memory does not count, nor what the pod does not ask for", Pod: pod, Scores: map[string]int64{"half": 50}},
		},
	})
	for _, config := range []string{
		`{"resources":[{"weight":1}]}`, `{"resources":[{"name":"cpu","weight":0}]}`, `{"resources":{}}`, `{"resource":[]}`,
	} {
		policytest.Refuses(t, "MostRequestedPriority", config)
	}
}
