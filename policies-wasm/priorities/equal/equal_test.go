package equal

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestScore(t *testing.T) {
	t.Parallel()
	policytest.Run(t, policytest.Table{
		Policy: "EqualPriority",
		Nodes:  []policytest.Node{{Name: "a"}, {Name: "b", Unschedulable: true}},
		Cases:  []policytest.Case{{Name: "any pod", Scores: map[string]int64{"a": 1, "b": 1}}},
	})
}
