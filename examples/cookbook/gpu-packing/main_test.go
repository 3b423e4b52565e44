package main

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestGPUPacking(t *testing.T) {
	t.Parallel()
	gpus := func(name, has, taken string) policytest.Node {
		return policytest.Node{
			Name:        name,
			Allocatable: map[string]string{"nvidia.com/gpu": has}, Requested: map[string]string{"nvidia.com/gpu": taken},
		}
	}
	policytest.Run(t, policytest.Table{
		Policy: "GPUPacking",
		Nodes:  []policytest.Node{gpus("empty", "8", "0"), gpus("begun", "8", "5"), {Name: "none"}},
		Cases: []policytest.Case{
			{
				Name:   "a pod with GPUs goes where GPUs are taken",
				Pod:    policytest.Pod{Requests: map[string]string{"nvidia.com/gpu": "2"}},
				Scores: map[string]int64{"empty": 25, "begun": 87, "none": 0},
			},
			{Name: "a pod without stays away", Scores: map[string]int64{"empty": 0, "begun": 0, "none": 100}},
		},
	})
}
