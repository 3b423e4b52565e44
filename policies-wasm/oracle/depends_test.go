package oracle

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Of two nodes that are equal in what a policy says it depends on, it says the same:
// on all pods and nodes of the cases.
func TestEqualNodesGetEqualAnswers(t *testing.T) {
	t.Parallel()
	answered := 0
	for _, theme := range []string{"nodeaffinity", "mixed"} {
		for _, c := range load(t, theme) {
			cluster := c.Cluster()
			var slots []int32
			for slot := range cluster.Slots() {
				if cluster.Row(slot) != nil {
					slots = append(slots, slot)
				}
			}
			for _, name := range []string{"MatchNodeSelector", "NodeAffinityPriority"} {
				g := opener(openNative).over(t, name, "", cluster)
				for _, pod := range c.Asked() {
					a := g.pod(pod)
					if a.Ask != abi.AskRows {
						continue
					}
					out, err := g.speaker.(native).in.Depends()
					g.must("depends", err)
					depends, err := abi.ReadDepends(out, g.manifest.Groups())
					g.must("depends", err)
					if depends == nil {
						t.Fatalf("%s, %s: it says to depend on all", c.Name, name)
					}
					seen := map[string]string{}
					for i, answer := range g.answers(a, slots) {
						answered++
						row := cluster.Row(slots[i])
						key := matters(depends, row)
						if before, ok := seen[key]; ok && before != answer {
							t.Errorf("%s, %s on %s: %s, and on an equal node %s; it says to depend on %+v", c.Name, name, row.Node.Name, answer, before, depends)
						}
						seen[key] = answer
					}
				}
			}
		}
	}
	if answered < 500 {
		t.Errorf("%d answers were compared", answered)
	}
}

// answers are verdicts or scores as text.
func (g *judge) answers(a abi.PodAnswer, slots []int32) (texts []string) {
	g.t.Helper()
	if g.manifest.Kind == abi.KindPriority {
		for _, score := range g.score(slots) {
			texts = append(texts, fmt.Sprint(score))
		}
		return texts
	}
	for _, reason := range g.filter(a, slots) {
		texts = append(texts, fmt.Sprintf("%q", reason.Text))
	}
	return texts
}

// matters is what of a row a policy depends on, as text.
func matters(d *abi.Depends, row *snapshot.Row) string {
	var hashes snapshot.RowHashes
	row.Hash(&hashes, snapshot.RowGroups)
	text := fmt.Sprint(hashes.Of(d.Groups))
	for _, l := range d.Labels {
		value, has := row.Node.Labels[l.Key]
		if l.Key == "" {
			value, has = row.Node.Name, true
		}
		if !l.Any && !slices.Contains(l.Values, value) {
			value = "another"
		}
		text += fmt.Sprintf(" %s=%t/%s", l.Key, has, value)
	}
	return text
}
