package podtopologyspread

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	const (
		no      = "node(s) didn't match pod topology spread constraints"
		missing = no + " (missing required label)"
	)
	web := map[string]string{"app": "web"}
	pod := func(s ...policytest.Spread) policytest.Pod { return policytest.Pod{Labels: web, Spread: s} }
	zone := policytest.Spread{Topology: "zone", MaxSkew: 1, Selector: web}
	wide, soft, many, host := zone, zone, zone, zone
	wide.MaxSkew, soft.Soft, many.MinDomains, host.Topology = 2, true, 4, "host"
	elsewhere := pod(zone)
	elsewhere.NodeSelector = map[string]string{"zone": "a"}
	policytest.Run(t, policytest.Table{
		Policy: "PodTopologySpread",
		Nodes: []policytest.Node{
			{Name: "a1", Labels: map[string]string{"zone": "a", "host": "a1"}},
			{Name: "a2", Labels: map[string]string{"zone": "a", "host": "a2"}},
			{Name: "b1", Labels: map[string]string{"zone": "b", "host": "b1"}},
			{Name: "bare"},
		},
		Placed: []policytest.Placed{
			{Node: "a1", Pod: policytest.Pod{Labels: web}},
			{Node: "a1", Pod: policytest.Pod{Labels: web}, Terminating: true},
			{Node: "b1", Pod: policytest.Pod{Labels: web, Namespace: "other"}},
			{Node: "bare", Pod: policytest.Pod{Labels: web}},
		},
		Cases: []policytest.Case{
			{Name: "no constraint", Pod: pod(), Want: map[string]string{"a1": "", "bare": ""}},
			{Name: "a soft one", Pod: pod(soft), Want: map[string]string{"a1": "", "bare": ""}},
			{Name: "a hard one", Pod: pod(zone), Want: map[string]string{"a1": no, "a2": no, "b1": "", "bare": missing}},
			{Name: "more skew", Pod: pod(wide), Want: map[string]string{"a1": "", "b1": ""}},
			{Name: "fewer parts than wanted count the least as none", Pod: pod(many), Want: map[string]string{"a1": no, "b1": ""}},
			{Name: "two constraints", Pod: pod(zone, host), Want: map[string]string{"a1": no, "a2": no, "b1": ""}},
			{Name: "nodes that the pod cannot use do not count", Pod: elsewhere, Want: map[string]string{"a1": "", "a2": ""}},
			{
				Name: "a pod that does not meet its own selector adds nothing",
				Pod:  policytest.Pod{Spread: []policytest.Spread{zone}}, Want: map[string]string{"a1": "", "b1": ""},
			},
		},
	})
	policytest.Refuses(t, "PodTopologySpread", `{"some":1}`)
}
