package main

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestEnergyAware(t *testing.T) {
	t.Parallel()
	with := func(name, watts string) policytest.Node {
		return policytest.Node{Name: name, Annotations: map[string]string{"energy.example.test/watts-per-cpu": watts}}
	}
	policytest.Run(t, policytest.Table{
		Policy: "EnergyAware",
		Nodes:  []policytest.Node{with("frugal", "5"), with("hungry", "40"), with("liar", "-3"), {Name: "silent"}},
		Cases: []policytest.Case{
			{
				Name:   "half a CPU",
				Pod:    policytest.Pod{Requests: map[string]string{"cpu": "500m"}},
				Scores: map[string]int64{"frugal": 2500, "hungry": 20_000, "liar": 10_000, "silent": 10_000},
			},
			{Name: "nothing asked counts as 100m", Scores: map[string]int64{"frugal": 500, "hungry": 4000}},
		},
	})
}
