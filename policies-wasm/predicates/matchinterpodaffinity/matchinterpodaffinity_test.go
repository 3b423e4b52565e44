package matchinterpodaffinity

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	const (
		noAffinity = "node(s) didn't match pod affinity rules"
		noAnti     = "node(s) didn't match pod anti-affinity rules"
		noOthers   = "node(s) didn't satisfy existing pods anti-affinity rules"
	)
	web, db := map[string]string{"app": "web"}, map[string]string{"app": "db"}
	zone := func(selector map[string]string) []policytest.Term {
		return []policytest.Term{{Selector: selector, Topology: "zone"}}
	}
	policytest.Run(t, policytest.Table{
		Policy: "MatchInterPodAffinity",
		Nodes: []policytest.Node{
			{Name: "a1", Labels: map[string]string{"zone": "a"}},
			{Name: "a2", Labels: map[string]string{"zone": "a"}},
			{Name: "b1", Labels: map[string]string{"zone": "b"}},
			{Name: "bare"},
		},
		Namespaces: map[string]map[string]string{"one": {"team": "x"}, "two": {"team": "y"}},
		Placed: []policytest.Placed{
			{Node: "a1", Pod: policytest.Pod{Namespace: "one", Labels: web}},
			{Node: "b1", Pod: policytest.Pod{Namespace: "one", Labels: db, AntiAffinity: zone(map[string]string{"app": "loud"})}},
			{Node: "bare", Pod: policytest.Pod{Namespace: "one", Labels: map[string]string{"app": "lost"}}},
		},
		Cases: []policytest.Case{
			{Name: "a plain pod", Pod: policytest.Pod{Namespace: "one"}, Want: map[string]string{"a1": "", "b1": "", "bare": ""}},
			{
				Name: "affinity takes the zone of the pod", Pod: policytest.Pod{Namespace: "one", Affinity: zone(web)},
				Want: map[string]string{"a1": "", "a2": "", "b1": noAffinity, "bare": noAffinity},
			},
			{
				Name: "affinity stays in its namespace", Pod: policytest.Pod{Namespace: "two", Affinity: zone(web)},
				Want: map[string]string{"a1": noAffinity},
			},
			{
				Name: "affinity reaches namespaces by their labels",
				Pod: policytest.Pod{Namespace: "two", Affinity: []policytest.Term{
					{Selector: web, NamespaceSelector: map[string]string{"team": "x"}, Topology: "zone"},
				}},
				Want: map[string]string{"a2": "", "b1": noAffinity},
			},
			{
				Name: "one pod must meet all terms",
				Pod:  policytest.Pod{Namespace: "one", Affinity: append(zone(web), zone(db)...)},
				Want: map[string]string{"a1": noAffinity, "b1": noAffinity},
			},
			{
				Name: "the first of a series may go anywhere that has the key",
				Pod:  policytest.Pod{Namespace: "one", Labels: map[string]string{"app": "new"}, Affinity: zone(map[string]string{"app": "new"})},
				Want: map[string]string{"a1": "", "b1": "", "bare": noAffinity},
			},
			{
				Name: "a pod on a node without the key is in no part",
				Pod:  policytest.Pod{Namespace: "one", AntiAffinity: zone(map[string]string{"app": "lost"})},
				Want: map[string]string{"a1": "", "b1": "", "bare": ""},
			},
			{
				Name: "anti-affinity keeps off", Pod: policytest.Pod{Namespace: "one", AntiAffinity: zone(web)},
				Want: map[string]string{"a1": noAnti, "a2": noAnti, "b1": "", "bare": ""},
			},
			{
				Name: "others' anti-affinity keeps off", Pod: policytest.Pod{Namespace: "one", Labels: map[string]string{"app": "loud"}},
				Want: map[string]string{"a1": "", "b1": noOthers, "bare": ""},
			},
		},
	})
	policytest.Refuses(t, "MatchInterPodAffinity", `{"some":1}`)
}
