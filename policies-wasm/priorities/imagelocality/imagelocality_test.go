package imagelocality

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestScore(t *testing.T) {
	t.Parallel()
	policytest.Run(t, policytest.Table{
		Policy: "ImageLocalityPriority",
		Nodes: []policytest.Node{
			{Name: "none"},
			{Name: "one", Images: map[string]int64{"big:1": 1000 * mib}},
			{Name: "both", Images: map[string]int64{"big:1": 1000 * mib, "small:1": 20 * mib}},
			{Name: "huge", Images: map[string]int64{"huge:1": 1 << 50}},
		},
		Cases: []policytest.Case{
			{Name: "an image that no node has", Pod: policytest.Pod{Images: []string{"new:1"}}, Scores: map[string]int64{"none": 0, "both": 0}},
			// Half of the nodes have it: 500 MiB, so 100 · (500 − 23) / 977.
			{Name: "a big one", Pod: policytest.Pod{Images: []string{"big:1"}}, Scores: map[string]int64{"none": 0, "one": 48, "both": 48}},
			{Name: "below the threshold", Pod: policytest.Pod{Images: []string{"small:1"}}, Scores: map[string]int64{"both": 0}},
			// (505 − 23) / (2000 − 23): more containers stretch the range.
			{Name: "two", Pod: policytest.Pod{Images: []string{"big:1", "small:1"}}, Scores: map[string]int64{"one": 24, "both": 24}},
			{Name: "never beyond 100", Pod: policytest.Pod{Images: []string{"huge:1"}}, Scores: map[string]int64{"huge": 100}},
		},
	})
}
