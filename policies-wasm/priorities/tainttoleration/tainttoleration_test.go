package tainttoleration

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestScore(t *testing.T) {
	t.Parallel()
	policytest.Run(t, policytest.Table{
		Policy: "TaintTolerationPriority",
		Nodes: []policytest.Node{
			{Name: "plain"},
			{Name: "hard", Taints: []string{"a=1:NoSchedule"}},
			{Name: "one", Taints: []string{"a=1:PreferNoSchedule"}},
			{Name: "two", Taints: []string{"a=1:PreferNoSchedule", "b=1:PreferNoSchedule"}},
		},
		Cases: []policytest.Case{
			{Name: "no tolerations", Scores: map[string]int64{"plain": 0, "hard": 0, "one": 1, "two": 2}},
			{
				Name: "one of them", Scores: map[string]int64{"one": 0, "two": 1},
				Pod: policytest.Pod{Tolerations: []policytest.Toleration{{Key: "a", Operator: "Exists"}}},
			},
			{
				Name: "another effect", Scores: map[string]int64{"one": 1},
				Pod: policytest.Pod{Tolerations: []policytest.Toleration{{Key: "a", Operator: "Exists", Effect: "NoSchedule"}}},
			},
		},
	})
}
