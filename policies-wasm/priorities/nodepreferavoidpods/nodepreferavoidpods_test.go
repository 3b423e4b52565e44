package nodepreferavoidpods

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func avoids(text string) map[string]string { return map[string]string{annotation: text} }

func TestScore(t *testing.T) {
	t.Parallel()
	signature := func(kind, uid string) string {
		return `{"podSignature":{"podController":{"apiVersion":"v1","kind":"` + kind + `","uid":"` + uid + `"}}}`
	}
	policytest.Run(t, policytest.Table{
		Policy: "NodePreferAvoidPodsPriority",
		Nodes: []policytest.Node{
			{Name: "plain"},
			{Name: "avoids it", Annotations: avoids(`{"preferAvoidPods":[` + signature("ReplicaSet", "other") + `,` + signature("ReplicaSet", "u1") + `]}`)},
			{Name: "avoids others", Annotations: avoids(`{"preferAvoidPods":[` + signature("ReplicaSet", "u2") + `]}`)},
			{Name: "avoids a namesake", Annotations: avoids(`{"preferAvoidPods":[` + signature("ReplicationController", "u1") + `]}`)},
			{Name: "broken", Annotations: avoids(`{"preferAvoidPods":`)},
			{Name: "odd", Annotations: avoids(`{"preferAvoidPods":7}`)},
		},
		Cases: []policytest.Case{
			{
				Name: "a pod of a ReplicaSet", Pod: policytest.Pod{Controller: policytest.Controller{Kind: "ReplicaSet", UID: "u1"}},
				Scores: map[string]int64{"plain": 100, "avoids it": 0, "avoids others": 100, "avoids a namesake": 100, "broken": 100, "odd": 100},
			},
			{
				Name: "a pod of something else", Pod: policytest.Pod{Controller: policytest.Controller{Kind: "Job", UID: "u1"}},
				Scores: map[string]int64{"avoids it": 100},
			},
			{Name: "a pod of nobody", Scores: map[string]int64{"avoids it": 100}},
		},
	})
}
