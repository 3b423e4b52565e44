package leastrequested

import (
	"math"
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestScore(t *testing.T) {
	t.Parallel()
	has := map[string]string{"cpu": "4", "memory": "8Gi"}
	policytest.Run(t, policytest.Table{
		Policy: "LeastRequestedPriority",
		Nodes: []policytest.Node{
			{Name: "empty", Allocatable: has},
			{Name: "half", Allocatable: has, Requested: map[string]string{"cpu": "1", "memory": "4Gi"}},
			{Name: "over", Allocatable: has, Requested: map[string]string{"cpu": "4", "memory": "8Gi"}},
			{Name: "nothing"},
			{Name: "no cpu", Allocatable: map[string]string{"memory": "8Gi"}},
		},
		Cases: []policytest.Case{
			{
				Name: "requests", Pod: policytest.Pod{Requests: map[string]string{"cpu": "1", "memory": "2Gi"}},
				Scores: map[string]int64{"empty": 75, "half": 37, "over": 0, "nothing": 0, "no cpu": 75},
			},
			{Name: "defaults count for a pod without requests", Scores: map[string]int64{"empty": 97}},
		},
	})
}

func TestNonsenseDoesNotOverflow(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 99, 1 << 40, 1 << 57, math.MaxInt64} {
		for _, requested := range []int64{0, 1, n / 2, n} {
			if got := (formula{}).Score(requested, n); got < 0 || got > 100 {
				t.Errorf("score(%d, %d) = %d", requested, n, got)
			}
		}
	}
}
