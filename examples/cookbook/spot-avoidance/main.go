// Command spot-avoidance keeps workloads of chosen classes off spot nodes,
// which the cloud may take away at any time.
package main

import "github.com/berth-dev/berth/sdk"

type spotAvoidance struct {
	podLabel, nodeLabel, spot, class string
}

func (s *spotAvoidance) Configure(c sdk.Config) error {
	s.podLabel = c.String("podLabel", "workload-class")
	s.nodeLabel = c.String("nodeLabel", "node.example.test/lifecycle")
	s.spot = c.String("spot", "spot")
	s.class = c.String("class", "critical")
	return c.OnlyKeys("podLabel", "nodeLabel", "spot", "class")
}

func (s *spotAvoidance) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	if pod.Label(s.podLabel) == s.class && node.Label(s.nodeLabel) == s.spot {
		return sdk.RejectFinal("workload must not run on a spot node")
	}
	return sdk.Admit
}

func init() {
	sdk.Predicate("SpotAvoidance", &spotAvoidance{}, sdk.Reads(sdk.PodLabels|sdk.NodeLabels),
		sdk.Describe("Keeps workloads of a class off spot nodes."))
}

func main() {}
