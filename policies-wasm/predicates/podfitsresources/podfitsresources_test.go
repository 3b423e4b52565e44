package podfitsresources

import (
	"math"
	"strconv"
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	has := map[string]string{"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "2", "nvidia.com/gpu": "2"}
	nodes := []policytest.Node{
		{Name: "empty", Allocatable: has},
		{Name: "busy", Allocatable: has, Requested: map[string]string{"cpu": "3500m", "memory": "7Gi", "pods": "1", "nvidia.com/gpu": "1"}},
		{Name: "crowded", Allocatable: has, Requested: map[string]string{"pods": "2"}},
		{Name: "over", Allocatable: has, Requested: map[string]string{"cpu": "9"}},
		{Name: "nothing"},
		{Name: "huge", Allocatable: map[string]string{"cpu": "9000T", "memory": "8000Pi", "pods": "9"}},
	}
	ask := func(pairs ...string) policytest.Pod {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return policytest.Pod{Requests: m}
	}
	policytest.Run(t, policytest.Table{
		Policy: "PodFitsResources", Nodes: nodes,
		Cases: []policytest.Case{
			{Name: "no requests need only a place", Want: map[string]string{
				"empty": "", "busy": "", "crowded": "Too many pods", "over": "", "nothing": "Too many pods",
			}},
			{Name: "what is left suffices to the last", Pod: ask("cpu", "500m", "memory", "1Gi"), Want: map[string]string{"empty": "", "busy": ""}},
			{Name: "a thousandth too much", Pod: ask("cpu", "501m"), Want: map[string]string{
				"empty": "", "busy": "Insufficient cpu", "over": "Insufficient cpu",
			}},
			{Name: "all reasons in order", Pod: ask("memory", "2Gi", "ephemeral-storage", "11Gi"), Want: map[string]string{
				"empty": "Insufficient ephemeral-storage", "busy": "Insufficient memory, Insufficient ephemeral-storage",
			}},
			{Name: "extended resources", Pod: ask("nvidia.com/gpu", "2"), Want: map[string]string{
				"empty": "", "busy": "Insufficient nvidia.com/gpu", "nothing": "Too many pods, Insufficient nvidia.com/gpu", "huge": "Insufficient nvidia.com/gpu",
			}},
			{Name: "the largest request", Pod: ask("memory", strconv.FormatInt(math.MaxInt64/2, 10)), Want: map[string]string{
				"empty": "Insufficient memory", "huge": "",
			}},
		},
	})
	policytest.Run(t, policytest.Table{
		Policy: "PodFitsResources", Nodes: nodes, Config: `{"ignoredResources":["a.io/x"],"ignoredResourceGroups":["b.io"]}`,
		Cases: []policytest.Case{
			{Name: "ignored ones", Pod: ask("a.io/x", "1", "b.io/y", "2"), Want: map[string]string{"empty": ""}},
			{Name: "others still count", Pod: ask("a.io/y", "1"), Want: map[string]string{"empty": "Insufficient a.io/y"}},
		},
	})
	policytest.Refuses(t, "PodFitsResources", `{"ignoredResources":"a.io/x"}`)
}
