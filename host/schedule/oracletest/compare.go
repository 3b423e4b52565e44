package oracletest

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Oracle compares a profile with the answers.
type Oracle struct {
	Reasons *framework.Reasons
	Profile *framework.Profile
	// Filters says which policies stand for a plugin, in the profile's order;
	// a plugin that is not here is not compared. Scores the same, one each.
	Filters map[string][]string
	Scores  map[string]string
	// Whole says that the profile is kube-scheduler's as a whole: then the
	// feasible set, totals and the best set are compared too.
	Whole bool
	// Normal are the plugins whose policies normalise by themselves: their raw
	// score is what the plugin's becomes.
	Normal map[string]bool
	// Now is the time that policies are told.
	Now int64
}

// Compare asks about each pod of a case and returns what differs.
func (o *Oracle) Compare(ctx context.Context, c *Case) ([]string, error) {
	var differences []string
	cluster, decider := c.Cluster(), cycle.New(cycle.Options{Reasons: o.Reasons})
	for i, object := range c.Asked() {
		pod := snapshot.NewPod(object)
		table, err := cycle.Judge(ctx, o.Profile, o.Reasons, cluster, pod, o.Now)
		if err != nil {
			return nil, err
		}
		d := difference{oracle: o, c: c, cluster: cluster, answer: &c.Answers[i], table: table}
		d.columns()
		if o.Whole {
			if !d.answer.crowded() {
				d.whole()
			}
			d.decide(ctx, decider, pod)
		}
		differences = append(differences, d.found...)
	}
	return differences, nil
}

// difference gathers what differs for one pod.
type difference struct {
	oracle  *Oracle
	c       *Case
	cluster *snapshot.Cluster
	answer  *Answer
	table   *cycle.Table
	found   []string
}

func (d *difference) add(format string, args ...any) {
	d.found = append(d.found, fmt.Sprintf("%s, %s: ", d.c.Name, d.answer.Pod)+fmt.Sprintf(format, args...))
}

func (d *difference) name(i int) string { return d.cluster.Row(d.table.Rows[i]).Node.Name }

// columns compares each predicate and priority by itself.
func (d *difference) columns() {
	for i := range d.table.Rows {
		node := d.answer.Nodes[d.name(i)]
		for plugin, policies := range d.oracle.Filters {
			// Where a plugin failed there is nothing to agree with.
			if got, want := d.code(policies, i), d.answer.code(plugin, node); got != want && want != "Error" {
				d.add("%s says %s of %s, want %s", plugin, got, d.name(i), want)
			}
		}
		if d.oracle.Whole && node.Feasible && !d.answer.crowded() {
			d.scores(i, node)
		}
	}
}

// code is the verdict of the policies that stand for a plugin.
func (d *difference) code(policies []string, i int) string {
	for k := range d.table.Predicates {
		p := &d.table.Predicates[k]
		if !slices.Contains(policies, p.Policy) || p.Reasons[i] == 0 {
			continue
		}
		if d.oracle.Reasons.Get(p.Reasons[i]).Resolvable {
			return "Unschedulable"
		}
		return "UnschedulableAndUnresolvable"
	}
	return "Success"
}

func (a *Answer) code(plugin string, node NodeAnswer) string {
	if pre, ok := a.PreFilter[plugin]; ok && pre.Code != "Success" && pre.Code != "Skip" {
		return pre.Code
	}
	if s, ok := node.Filters[plugin]; ok {
		return s.Code
	}
	return "Success"
}

// crowded says whether pods for which room is made change the feasible set. A
// table leaves them out; the engine minds them.
func (a *Answer) crowded() bool {
	for _, n := range a.Nodes {
		if n.Crowded {
			return true
		}
	}
	return false
}

// scores compares raw and normalised scores of a feasible node; they are over
// the feasible rows, so that only a whole profile has the same ones.
func (d *difference) scores(i int, node NodeAnswer) {
	for plugin, policy := range d.oracle.Scores {
		k := slices.IndexFunc(d.table.Priorities, func(s cycle.Scores) bool { return s.Policy == policy })
		want, scored := node.Scores[plugin]
		if k < 0 || !scored {
			continue
		}
		p := &d.table.Priorities[k]
		if d.oracle.Normal[plugin] {
			want.Raw = want.Normalized
		}
		if p.Skipped && want.Normalized == 0 {
			continue
		}
		if p.Raw[i] != want.Raw || p.Normalized[i] != want.Normalized {
			d.add("%s scores %s %d→%d, want %d→%d", plugin, d.name(i), p.Raw[i], p.Normalized[i], want.Raw, want.Normalized)
		}
	}
}

// whole compares the feasible set, the totals and the best set.
func (d *difference) whole() {
	var feasible []string
	for i, yes := range d.table.Feasible {
		if !yes {
			continue
		}
		feasible = append(feasible, d.name(i))
		if want := d.answer.Nodes[d.name(i)].Total; d.table.Total[i] != want {
			d.add("the total of %s is %d, want %d", d.name(i), d.table.Total[i], want)
		}
	}
	if got, want := sorted(feasible), sorted(d.answer.Feasible); !slices.Equal(got, want) {
		d.add("feasible are %v, want %v", got, want)
	}
	rows, total := d.table.Best()
	var best []string
	for _, slot := range rows {
		best = append(best, d.cluster.Row(slot).Node.Name)
	}
	if got, want := sorted(best), sorted(d.answer.Best); !slices.Equal(got, want) || total != d.answer.BestTotal {
		d.add("best are %v with %d, want %v with %d", got, total, want, d.answer.BestTotal)
	}
}

// decide compares what the incremental engine makes of the same policies. It
// is asked three times, so that the last ones go by remembered answers.
func (d *difference) decide(ctx context.Context, decider *cycle.Decider, pod *snapshot.Pod) {
	set := &framework.LiveSet{Number: 1, Profiles: map[string]*framework.Profile{d.oracle.Profile.Name: d.oracle.Profile}}
	for seed := range uint64(3) {
		d.decided(decider.Decide(ctx, cycle.Input{
			Set: set, Profile: d.oracle.Profile, Log: d.cluster, Pod: pod, Now: d.oracle.Now, Seed: seed,
			Nominated: d.cluster.Nominated(pod),
		}))
		decider.End()
	}
}

func (d *difference) decided(got cycle.Decision) {
	if len(got.Failures) > 0 {
		d.add("policies failed: %v", got.Failures)
	}
	if got.Feasible != len(d.answer.Feasible) || got.Tied != len(d.answer.Best) {
		d.add("the engine finds %d feasible, %d best, want %d and %d", got.Feasible, got.Tied, len(d.answer.Feasible), len(d.answer.Best))
	}
	if got.Slot < 0 {
		return
	}
	name := d.cluster.Row(got.Slot).Node.Name
	if !slices.Contains(d.answer.Best, name) || got.Total != d.answer.BestTotal {
		d.add("the engine picks %s with %d, want one of %v with %d", name, got.Total, d.answer.Best, d.answer.BestTotal)
	}
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
