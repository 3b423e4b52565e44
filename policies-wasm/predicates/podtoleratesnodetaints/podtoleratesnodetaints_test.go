package podtoleratesnodetaints

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	const no = "node(s) had untolerated taint(s)"
	all := func(v string) map[string]string {
		return map[string]string{"plain": "", "prefer": "", "gpu": v, "gpu too": v, "gone": v}
	}
	with := func(list ...policytest.Toleration) policytest.Pod { return policytest.Pod{Tolerations: list} }
	policytest.Run(t, policytest.Table{
		Policy: "PodToleratesNodeTaints",
		Nodes: []policytest.Node{
			{Name: "plain"},
			{Name: "prefer", Taints: []string{"spot=true:PreferNoSchedule"}},
			{Name: "gpu", Taints: []string{"gpu=a100:NoSchedule"}},
			{Name: "gpu too", Taints: []string{"gpu=a100:NoSchedule"}},
			{Name: "gone", Taints: []string{"gpu=a100:NoSchedule", "gone:NoExecute"}},
		},
		Cases: []policytest.Case{
			{Name: "no tolerations", Want: all(no)},
			{Name: "everything", Pod: with(policytest.Toleration{Operator: "Exists"}), Want: all("")},
			{
				Name: "one taint by its value", Pod: with(policytest.Toleration{Key: "gpu", Value: "a100", Effect: "NoSchedule"}),
				Want: map[string]string{"gpu": "", "gpu too": "", "gone": no},
			},
			{
				Name: "another value", Pod: with(policytest.Toleration{Key: "gpu", Value: "h100"}),
				Want: map[string]string{"gpu": no},
			},
			{
				Name: "another effect", Pod: with(policytest.Toleration{Key: "gpu", Operator: "Exists", Effect: "NoExecute"}),
				Want: map[string]string{"gpu": no},
			},
			{
				Name: "both", Pod: with(policytest.Toleration{Key: "gpu", Operator: "Exists"}, policytest.Toleration{Key: "gone", Operator: "Exists"}),
				Want: map[string]string{"gone": ""},
			},
		},
	})
}
