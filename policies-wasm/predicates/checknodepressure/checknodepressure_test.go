package checknodepressure

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	for policy, rule := range map[string]struct {
		condition, reason string
		bestEffortOnly    bool
	}{
		"CheckNodeMemoryPressure": {"MemoryPressure", "node(s) had memory pressure", true},
		"CheckNodeDiskPressure":   {"DiskPressure", "node(s) had disk pressure", false},
		"CheckNodePIDPressure":    {"PIDPressure", "node(s) had pid pressure", false},
	} {
		burdened := rule.reason
		if rule.bestEffortOnly {
			burdened = ""
		}
		policytest.Run(t, policytest.Table{
			Policy: policy,
			Nodes: []policytest.Node{
				{Name: "silent"},
				{Name: "fine", Conditions: map[string]string{rule.condition: "False", "Ready": "True"}},
				{Name: "unknown", Conditions: map[string]string{rule.condition: "Unknown"}},
				{Name: "pressed", Conditions: map[string]string{rule.condition: "True", "Ready": "True"}},
			},
			Cases: []policytest.Case{
				{
					Name: policy + ": a pod without requests",
					Want: map[string]string{"silent": "", "fine": "", "unknown": "", "pressed": rule.reason},
				},
				{
					Name: policy + ": a pod with requests",
					Pod:  policytest.Pod{Requests: map[string]string{"cpu": "1m"}},
					Want: map[string]string{"silent": "", "fine": "", "unknown": "", "pressed": burdened},
				},
			},
		})
	}
}
