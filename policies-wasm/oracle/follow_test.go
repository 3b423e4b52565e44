package oracle

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/oracletest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// followers are the policies of scope set, which keep counts.
var followers = []string{
	"MatchInterPodAffinity", "PodTopologySpread", "NoDiskConflict", "MaxCSIVolumeCount", "CheckVolumeBinding",
	"NoVolumeZoneConflict", "InterPodAffinityPriority", "PodTopologySpreadPriority", "SelectorSpreadPriority",
}

// TestPoliciesFollowChanges changes clusters at random and compares a policy
// that has followed each change with one that sees the cluster anew.
func TestPoliciesFollowChanges(t *testing.T) {
	t.Parallel()
	for _, theme := range []string{"podaffinity", "spread", "volumes", "mixed"} {
		for _, c := range load(t, theme) {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				follow(t, c, rand.New(rand.NewPCG(1, uint64(len(c.Name)))))
			})
		}
	}
}

func follow(t *testing.T, c *oracletest.Case, random *rand.Rand) {
	cluster := c.Cluster()
	var guests []*judge
	for _, name := range followers {
		guests = append(guests, opener(openNative).over(t, name, "", cluster))
	}
	for step := range 30 {
		seq := cluster.Seq()
		what := change(c, cluster, random, step)
		deltas, ok := cluster.Since(seq)
		if !ok {
			t.Fatal("the deltas are lost")
		}
		for _, g := range guests {
			g.apply(deltas.Whole())
			fresh := opener(openNative).over(t, g.manifest.Name, "", cluster)
			for _, pod := range c.Asked() {
				if diff := cmp.Diff(fresh.all(pod), g.all(pod)); diff != "" {
					t.Fatalf("step %d, %s: %s on %s (-anew +followed):\n%s", step, what, g.manifest.Name, pod.Name, diff)
				}
			}
		}
	}
}

// change makes one change and says which.
func change(c *oracletest.Case, cluster *snapshot.Cluster, random *rand.Rand, step int) string {
	node := &c.Nodes[random.IntN(len(c.Nodes))]
	switch random.IntN(8) {
	case 0:
		cluster.RemoveNode(node.Name)
		return "remove node " + node.Name
	case 1:
		other := node.DeepCopy()
		from := &c.Nodes[random.IntN(len(c.Nodes))]
		other.Labels = from.Labels
		cluster.UpsertNode(other)
		return "relabel node " + node.Name
	case 2:
		cluster.UpsertNode(node)
		return "restore node " + node.Name
	case 3:
		if len(c.Namespaces) == 0 {
			return "nothing"
		}
		space := c.Namespaces[random.IntN(len(c.Namespaces))].DeepCopy()
		space.Labels = c.Namespaces[random.IntN(len(c.Namespaces))].Labels
		cluster.UpsertObject("namespaces", space)
		return "relabel namespace " + space.Name
	case 4, 5:
		pods := c.Asked()
		pod := pods[random.IntN(len(pods))].DeepCopy()
		pod.Name = fmt.Sprintf("placed-%d", step)
		pod.UID = types.UID(pod.Name)
		pod.Spec.NodeName = node.Name
		cluster.Place(snapshot.NewPod(pod), node.Name)
		return "place a pod like " + pod.Name + " on " + node.Name
	}
	if len(c.Pods) == 0 {
		return "nothing"
	}
	pod := &c.Pods[random.IntN(len(c.Pods))]
	cluster.Remove(pod.UID)
	return "remove pod " + pod.Name
}

// said is what a policy says of a pod on all nodes.
type said struct {
	Ask      abi.Ask
	Verdicts []string
	Scores   []int64
}

func (g *judge) all(pod *v1.Pod) (s said) {
	g.t.Helper()
	a := g.pod(pod)
	var slots []int32
	for slot := range g.cluster.Slots() {
		if row := g.cluster.Row(slot); row != nil && row.Node != nil {
			slots = append(slots, slot)
		}
	}
	s.Ask = a.Ask
	if len(slots) == 0 {
		return s
	}
	if g.manifest.Kind == abi.KindPredicate {
		for _, v := range g.filter(a, slots) {
			s.Verdicts = append(s.Verdicts, v.Text)
		}
		return s
	}
	if a.Ask == abi.AskRows {
		s.Scores = append(s.Scores, g.score(slots)...)
	}
	return s
}

// TestQuestionsLeaveNoTrace asks what would be if a node's pods went, compares
// with a policy that sees the cluster without them, and then as before.
func TestQuestionsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	for _, theme := range []string{"podaffinity", "spread", "volumes", "mixed"} {
		for _, c := range load(t, theme) {
			cluster := c.Cluster()
			for _, name := range followers {
				if g := opener(openNative).over(t, name, "", cluster); g.manifest.Kind == abi.KindPredicate {
					question(t, c, g)
				}
			}
		}
	}
}

func question(t *testing.T, c *oracletest.Case, g *judge) {
	for _, pod := range c.Asked() {
		before := g.all(pod)
		for i := range c.Nodes {
			slot, _ := g.cluster.Slot(c.Nodes[i].Name)
			without := g.cluster.Clone()
			from := without.Seq()
			for _, p := range g.cluster.Row(slot).Pods {
				without.Remove(p.Object.UID)
			}
			deltas, ok := without.Since(from)
			if !ok {
				t.Fatal("the copy does not tell what was done to it")
			}
			g.pod(pod)
			in := g.encoder.WhatIf([]framework.WhatIf{{Deltas: deltas.Whole(), Row: slot}}, g.manifest.Groups())
			out, err := g.speaker.(native).in.WhatIf(in)
			g.must("whatif", err)
			fresh := opener(openNative).over(t, g.manifest.Name, "", without)
			answer := fresh.pod(pod)
			want := fresh.filter(answer, []int32{slot})[0].Text
			if answer.Ask == abi.AskRefuse { // what would be is told by the table alone
				want = fresh.reason(answer.Reason).Text
			}
			if got := g.reason(uint32(out[0])).Text; got != want {
				t.Errorf("%s: %s of %s on %s without its pods = %q, want %q",
					c.Name, g.manifest.Name, pod.Name, c.Nodes[i].Name, got, want)
			}
		}
		if diff := cmp.Diff(before, g.all(pod)); diff != "" {
			t.Errorf("%s: %s of %s after questions (-before +after):\n%s", c.Name, g.manifest.Name, pod.Name, diff)
		}
	}
}
