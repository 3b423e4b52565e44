package checknodeunschedulable

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	const no, key = "node(s) were unschedulable", "node.kubernetes.io/unschedulable"
	with := func(t policytest.Toleration) policytest.Pod {
		return policytest.Pod{Tolerations: []policytest.Toleration{t}}
	}
	policytest.Run(t, policytest.Table{
		Policy: "CheckNodeUnschedulable",
		Nodes:  []policytest.Node{{Name: "open"}, {Name: "cordoned", Unschedulable: true}},
		Cases: []policytest.Case{
			{Name: "any pod", Want: map[string]string{"open": "", "cordoned": no}},
			{Name: "a pod that tolerates it", Pod: with(policytest.Toleration{Key: key, Operator: "Exists"}), Want: map[string]string{"cordoned": ""}},
			{Name: "a pod that tolerates its execution only", Pod: with(policytest.Toleration{Key: key, Operator: "Exists", Effect: "NoExecute"}), Want: map[string]string{"cordoned": no}},
		},
	})
}
