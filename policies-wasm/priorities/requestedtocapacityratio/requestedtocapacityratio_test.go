package requestedtocapacityratio

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestScore(t *testing.T) {
	t.Parallel()
	has := map[string]string{"cpu": "10", "memory": "10Gi", "example.com/gpu": "4"}
	nodes := []policytest.Node{
		{Name: "empty", Allocatable: has},
		{Name: "used", Allocatable: has, Requested: map[string]string{"cpu": "4", "memory": "1Gi", "example.com/gpu": "1"}},
		{Name: "over", Allocatable: has, Requested: map[string]string{"cpu": "20", "memory": "20Gi"}},
	}
	pod := policytest.Pod{Requests: map[string]string{"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}}
	policytest.Run(t, policytest.Table{
		Policy: "RequestedToCapacityRatio", Nodes: nodes,
		Cases: []policytest.Case{{
			Name: "by default the emptier the better", Pod: pod,
			Scores: map[string]int64{"empty": 90, "used": 65, "over": 0},
		}},
	})
	policytest.Run(t, policytest.Table{
		Policy: "RequestedToCapacityRatio", Nodes: nodes,
		Config: `{"shape":[{"utilization":0,"score":0},{"utilization":50,"score":10},{"utilization":100,"score":5}],
			"resources":[{"name":"example.com/gpu","weight":3},{"name":"cpu","weight":1}]}`,
		Cases: []policytest.Case{{
			// GPU 25 % → 50, CPU 10 % → 20: (150 + 20) / 4 = 42.5, rounded. GPU 50 %
			// → 100, CPU 50 % → 100. GPU 25 % → 50, CPU over → 50.
			Name: "along a line", Pod: pod, Scores: map[string]int64{"empty": 43, "used": 100, "over": 50},
		}},
	})
	for _, config := range []string{
		`{"shape":[]}`, `{"shape":[{"utilization":5,"score":1},{"utilization":5,"score":2}]}`,
		`{"shape":[{"utilization":101,"score":1}]}`, `{"shape":[{"utilization":1,"score":11}]}`, `{"shapes":[]}`,
	} {
		policytest.Refuses(t, "RequestedToCapacityRatio", config)
	}
}
