package main

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestDataLocality(t *testing.T) {
	t.Parallel()
	in := func(name, zone string) policytest.Node {
		return policytest.Node{Name: name, Labels: map[string]string{"topology.kubernetes.io/zone": zone}}
	}
	policytest.Run(t, policytest.Table{
		Policy: "DataLocality",
		Nodes:  []policytest.Node{in("n1", "a"), in("n2", "b"), in("n3", "c"), {Name: "nowhere"}},
		Cases: []policytest.Case{
			{
				Name:   "two zones hold the data",
				Pod:    policytest.Pod{Annotations: map[string]string{"data.example.test/zones": "b, a"}},
				Scores: map[string]int64{"n1": 50, "n2": 100, "n3": 0, "nowhere": 0},
			},
			{Name: "no data", Scores: map[string]int64{"n1": 0, "nowhere": 0}},
		},
	})
}
