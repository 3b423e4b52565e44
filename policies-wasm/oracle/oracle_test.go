package oracle

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/oracletest"
	"github.com/berth-dev/berth/host/schedule/score"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/checknodeunschedulable"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/checkvolumebinding"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/hostname"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/matchinterpodaffinity"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/matchnodeselector"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/maxvolumecount"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/nodiskconflict"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/novolumezoneconflict"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podfitshostports"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podfitsresources"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podtoleratesnodetaints"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podtopologyspread"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/balancedallocation"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/imagelocality"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/interpodaffinity"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/leastrequested"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/nodeaffinity"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/podtopologyspread"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/selectorspread"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/tainttoleration"
)

// stand says which policies stand for a plugin. With several, a node passes
// the plugin if it passes all of them.
type stand struct {
	plugin   string
	policies []string
	config   string
	// reasons: the texts agree too, word by word.
	reasons bool
	// normal: the policy sees all feasible rows and normalises by itself.
	normal bool
}

var predicates = []stand{
	{plugin: "NodeUnschedulable", policies: []string{"CheckNodeUnschedulable"}, reasons: true},
	{plugin: "NodeName", policies: []string{"HostName"}, reasons: true},
	{plugin: "TaintToleration", policies: []string{"PodToleratesNodeTaints"}},
	{plugin: "NodeAffinity", policies: []string{"MatchNodeSelector"}, reasons: true},
	{plugin: "NodePorts", policies: []string{"PodFitsHostPorts"}, reasons: true},
	{plugin: "NodeResourcesFit", policies: []string{"PodFitsResources"}, reasons: true},
	{plugin: "VolumeRestrictions", policies: []string{"NoDiskConflict"}},
	{plugin: "NodeVolumeLimits", policies: []string{"MaxCSIVolumeCount"}},
	{plugin: "VolumeBinding", policies: []string{"CheckVolumeBinding"}},
	{plugin: "VolumeZone", policies: []string{"NoVolumeZoneConflict"}},
	{plugin: "PodTopologySpread", policies: []string{"PodTopologySpread"}, reasons: true},
	{plugin: "InterPodAffinity", policies: []string{"MatchInterPodAffinity"}, reasons: true},
}

var priorities = []stand{
	{plugin: "TaintToleration", policies: []string{"TaintTolerationPriority"}},
	{plugin: "NodeAffinity", policies: []string{"NodeAffinityPriority"}},
	{plugin: "NodeResourcesFit", policies: []string{"LeastRequestedPriority"}},
	{plugin: "NodeResourcesBalancedAllocation", policies: []string{"BalancedResourceAllocation"}},
	{plugin: "ImageLocality", policies: []string{"ImageLocalityPriority"}},
	{plugin: "PodTopologySpread", policies: []string{"PodTopologySpreadPriority"}, normal: true},
	{plugin: "InterPodAffinity", policies: []string{"InterPodAffinityPriority"}},
}

func TestPoliciesAnswerAsKubeSchedulerDoes(t *testing.T) {
	t.Parallel()
	walk(t, themes, openNative)
}

var themes = []string{
	"resources", "taints", "nodeaffinity", "ports", "images", "mixed", "podaffinity", "spread", "volumes",
}

// load reads the cases of a theme.
func load(t *testing.T, theme string) (cases []*oracletest.Case) {
	t.Helper()
	list, err := oracletest.Load(os.DirFS("testdata"), theme)
	if err != nil || len(list) == 0 {
		t.Fatalf("%d cases of %s: %v", len(list), theme, err)
	}
	for i := range list {
		cases = append(cases, &list[i])
	}
	return cases
}

func walk(t *testing.T, themes []string, open opener) {
	for _, theme := range themes {
		t.Run(theme, func(t *testing.T) {
			for _, c := range load(t, theme) {
				compare(t, c, open)
			}
		})
	}
}

// compare asks about each of the case's pods. One guest serves all of them, as
// it does in a host.
func compare(t *testing.T, c *oracletest.Case, open opener) {
	cluster := c.Cluster()
	for _, s := range predicates {
		for _, name := range s.policies {
			g := open.over(t, name, s.config, cluster)
			for i, pod := range c.Asked() {
				g.comparePredicate(c, s, &c.Answers[i], g.pod(pod))
			}
			g.speaker.close()
		}
	}
	for _, s := range priorities {
		g := open.over(t, s.policies[0], s.config, cluster)
		for i, pod := range c.Asked() {
			g.comparePriority(c, s, &c.Answers[i], g.pod(pod))
		}
		g.speaker.close()
	}
}

// code of a verdict, as kube-scheduler names it.
func code(v abi.Reason) string {
	switch {
	case v.Text == "":
		return "Success"
	case v.Final:
		return "UnschedulableAndUnresolvable"
	}
	return "Unschedulable"
}

func (g *judge) comparePredicate(c *oracletest.Case, s stand, a *oracletest.Answer, said abi.PodAnswer) {
	g.t.Helper()
	for name, node := range a.Nodes {
		slot, ok := g.cluster.Slot(name)
		if !ok {
			g.t.Fatalf("%s has no node %s", c.Name, name)
		}
		want, refused := node.Filters[s.plugin]
		if pre := a.PreFilter[s.plugin]; pre.Code != "" && pre.Code != "Success" && pre.Code != "Skip" {
			want, refused = pre, true
		}
		if !refused {
			want.Code = "Success"
		}
		v := g.filter(said, []int32{slot})[0]
		if code(v) != want.Code {
			g.t.Errorf("%s, %s on %s: %s says %s (%s), want %s %q",
				c.Name, a.Pod, name, g.manifest.Name, code(v), v.Text, want.Code, want.Reasons)
			continue
		}
		if !s.reasons || !refused {
			continue
		}
		// kube-scheduler lists extended resources in the order of a map.
		if diff := cmp.Diff(sorted(want.Reasons), sorted(g.explain(slot))); diff != "" {
			g.t.Errorf("%s, %s on %s: reasons of %s (-want +got):\n%s", c.Name, a.Pod, name, g.manifest.Name, diff)
		}
	}
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

func (g *judge) comparePriority(c *oracletest.Case, s stand, a *oracletest.Answer, said abi.PodAnswer) {
	g.t.Helper()
	if s.skipped(a) {
		return
	}
	var slots []int32
	var want []scored
	for name, node := range a.Nodes {
		one, ok := node.Scores[s.plugin]
		slot, found := g.cluster.Slot(name)
		if ok && found {
			slots, want = append(slots, slot), append(want, scored{name, one.Raw, one.Normalized})
		}
	}
	if len(slots) == 0 {
		return
	}
	raw := make([]int64, len(slots))
	if said.Ask == abi.AskRows {
		raw = g.score(slots)
	}
	extremes := score.Of(raw)
	for i, w := range want {
		got := scored{w.node, raw[i], score.Normalize(g.manifest.Normalization(), raw[i], extremes)}
		if s.normal {
			w.raw = w.normalized
		}
		if got != w {
			g.t.Errorf("%s, %s on %s: %s scores %d, normalised %d, want %d, %d",
				c.Name, a.Pod, w.node, g.manifest.Name, got.raw, got.normalized, w.raw, w.normalized)
		}
	}
}

type scored struct {
	node            string
	raw, normalized int64
}

// skipped: kube-scheduler left the plugin out, so there is nothing to compare.
func (s stand) skipped(a *oracletest.Answer) bool {
	for _, p := range a.ScoreOrder {
		if p.Name == s.plugin {
			return p.Skipped
		}
	}
	return true
}
