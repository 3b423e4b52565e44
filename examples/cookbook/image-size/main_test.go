package main

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestImageSize(t *testing.T) {
	t.Parallel()
	const large, small = "registry.example.test/model:1", "registry.example.test/tool:1"
	policytest.Run(t, policytest.Table{
		Policy: "ImageSize",
		Nodes: []policytest.Node{
			{Name: "warm", Images: map[string]int64{large: 4 << 30, small: 5 << 20}},
			{Name: "half", Images: map[string]int64{small: 5 << 20}},
			{Name: "cold"},
		},
		Cases: []policytest.Case{
			{
				Name:   "only the large image counts",
				Pod:    policytest.Pod{Images: []string{large, small}},
				Scores: map[string]int64{"warm": 4096, "half": 0, "cold": 0},
			},
			{Name: "a pod without images", Scores: map[string]int64{"warm": 0}},
		},
	})
	policytest.Refuses(t, "ImageSize", `{"leastMebibytes":-1}`)
}
