package matchnodeselector

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	nodes := []policytest.Node{
		{Name: "bare"},
		{Name: "ssd", Labels: map[string]string{"disk": "ssd", "cores": "8"}},
		{Name: "hdd", Labels: map[string]string{"disk": "hdd", "cores": "16", "empty": ""}},
	}
	const no = "node(s) didn't match Pod's node affinity/selector"
	policytest.Run(t, policytest.Table{
		Policy: "MatchNodeSelector", Nodes: nodes,
		Cases: []policytest.Case{
			{Name: "no selector", Want: map[string]string{"bare": "", "ssd": ""}},
			{
				Name: "a label", Pod: policytest.Pod{NodeSelector: map[string]string{"disk": "ssd"}},
				Want: map[string]string{"bare": no, "ssd": "", "hdd": no},
			},
			{
				Name: "two labels", Pod: policytest.Pod{NodeSelector: map[string]string{"disk": "hdd", "cores": "16"}},
				Want: map[string]string{"bare": no, "ssd": no, "hdd": ""},
			},
			{
				Name: "an empty value is not an absent one", Pod: policytest.Pod{NodeSelector: map[string]string{"empty": ""}},
				Want: map[string]string{"bare": no, "ssd": no, "hdd": ""},
			},
		},
	})
	policytest.Run(t, policytest.Table{
		Policy: "MatchNodeSelector", Nodes: nodes,
		Config: `{"addedAffinity":[{"matchExpressions":[{"key":"cores","operator":"Gt","values":["8"]}]},
			{"matchFields":[{"key":"metadata.name","operator":"In","values":["bare"]}]}]}`,
		Cases: []policytest.Case{{
			Name: "terms that the settings add",
			Want: map[string]string{"bare": "", "hdd": "", "ssd": "node(s) didn't match scheduler-enforced node affinity"},
		}},
	})
	policytest.Refuses(t, "MatchNodeSelector", `{"addedAffinity":[{"matchExpressions":[{"key":"a","operator":"Like"}]}]}`)
}
