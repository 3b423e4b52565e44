package checknodecondition

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	on := func(kind, status string) map[string]string { return map[string]string{"Ready": "True", kind: status} }
	policytest.Run(t, policytest.Table{
		Policy: "CheckNodeCondition",
		Nodes: []policytest.Node{
			{Name: "silent"},
			{Name: "ready", Conditions: on("MemoryPressure", "True")},
			{Name: "unready", Conditions: on("Ready", "False")},
			{Name: "lost", Conditions: on("Ready", "Unknown")},
			{Name: "full", Conditions: on("OutOfDisk", "True")},
			{Name: "perhaps full", Conditions: on("OutOfDisk", "Unknown")},
			{Name: "cut off", Conditions: on("NetworkUnavailable", "True")},
			{Name: "connected", Conditions: on("NetworkUnavailable", "False")},
			{Name: "cordoned", Unschedulable: true},
		},
		Cases: []policytest.Case{{
			Name: "any pod",
			Want: map[string]string{
				"silent": "", "ready": "", "connected": "",
				"unready": "node(s) were not ready", "lost": "node(s) were not ready",
				"full": "node(s) were out of disk space", "perhaps full": "node(s) were out of disk space",
				"cut off": "node(s) had unavailable network", "cordoned": "node(s) were unschedulable",
			},
		}},
	})
	policytest.Refuses(t, "CheckNodeCondition", `{"a":1}`)
}
