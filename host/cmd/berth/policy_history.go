package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func newPolicyHistory() *cobra.Command {
	return newShown("history NAME", "List a policy's revisions, newest first: how each came and left",
		"  berth policy history gpu-only",
		func(p *v1alpha1.Policy) (any, func() *table, error) {
			return revisions(p), func() *table { return historyTable(p) }, nil
		})
}

// revisions are all, with the one that is live in front: it has not left.
func revisions(p *v1alpha1.Policy) []v1alpha1.PolicyRevision {
	all := []v1alpha1.PolicyRevision{}
	if p.Status.Current != nil {
		all = append(all, *p.Status.Current)
	}
	return append(all, p.Status.History...)
}

// newShown is a command that shows a part of a Policy.
func newShown(use, short, example string, part func(*v1alpha1.Policy) (value any, asTable func() *table, err error)) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: cobra.ExactArgs(1)}
	format := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := clientFor(cmd)
		if err != nil {
			return err
		}
		p, err := c.policy(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		value, asTable, err := part(p)
		if err != nil {
			return err
		}
		return format.printAs(cmd.OutOrStdout(), value, asTable)
	}
	return cmd
}

// historyTable shows what is live, and under it what was: how it came, how it
// left and why.
func historyTable(p *v1alpha1.Policy) *table {
	t := &table{head: []string{"MODULE", "CAME", "AGE", "LEFT", "SINCE", "UNTIL"}, kind: "module", wide: 2}
	row := func(module, came string, since metav1.Time, left, until, why string) {
		t.add(shortDigest(module), came, age(since), left, at(&since), until)
		t.note(shortDigest(module), why)
	}
	if c := p.Status.Canary; c != nil && c.Phase == v1alpha1.PhaseRunning && p.Spec.Canary != nil {
		row(c.Module, v1alpha1.CameCanary, c.Since, "on trial", "now", trialSoFar(p))
	}
	switch c := p.Status.Current; {
	case c != nil && p.Status.Live == "":
		row(c.Module, c.Reason, c.Since, "not live", "now", p.Status.Message)
	case c != nil:
		row(c.Module, c.Reason, c.Since, "live", "now", c.Message)
	}
	for i := range p.Status.History {
		r := &p.Status.History[i]
		row(r.Module, r.Reason, r.Since, r.Left, at(r.Until), r.Message)
	}
	return t
}

func at(when *metav1.Time) string {
	if when.IsZero() {
		return ""
	}
	return when.UTC().Format(time.RFC3339)
}

// trialSoFar sums up what a canary has been seen to do.
func trialSoFar(p *v1alpha1.Policy) string {
	d := p.Status.Differences
	if d == nil {
		of := "pods"
		if p.Status.Kind == abi.KindController {
			of = "parents"
		}
		return fmt.Sprintf("decides %d %% of the %s, none yet", p.Spec.Canary.Share, of)
	}
	if d.Answers > 0 || d.NotCompared > 0 {
		return fmt.Sprintf("decides about %d %% of the parents: of %s %d want something else done%s", p.Spec.Canary.Share, plural(int(d.Answers), "answer"), d.Otherwise, notCompared(d))
	}
	said := fmt.Sprintf("decides %d %% of the pods, %d so far: refuses nodes to %d, admits %d nodes more, prefers another node for %d",
		p.Spec.Canary.Share, d.Pods, d.RefusedPods, d.Admitted, d.Scored)
	if s := d.ScoreDelta; s != nil && s.Nodes > 0 {
		said += fmt.Sprintf(", scores %+.1f on average (%+d to %+d)", float64(s.Sum)/float64(s.Nodes), s.Least, s.Most)
	}
	return said
}

// notCompared tells of what a live controller that fails left out.
func notCompared(d *v1alpha1.Differences) string {
	if d.NotCompared == 0 {
		return ""
	}
	return fmt.Sprintf("; %d more were not compared, since the live one failed", d.NotCompared)
}

func newPolicyDiff() *cobra.Command {
	return newShown("diff NAME", "Show where a canary or shadow answers otherwise than what is live",
		"  berth policy push gpu-only ./examples/gpu-only --canary 10\n  berth policy diff gpu-only",
		func(p *v1alpha1.Policy) (any, func() *table, error) {
			d := p.Status.Differences
			if c := p.Status.Canary; d == nil && c != nil && c.Phase == v1alpha1.PhaseRolledBack {
				return nil, nil, fmt.Errorf("the canary of policy %s was rolled back before it was compared with anything: %s: %s", p.Name, c.Reason, c.Message)
			}
			if d == nil {
				return nil, nil, fmt.Errorf("policy %s has been compared with nothing yet: only a canary or a shadow is, and once it has been asked", p.Name)
			}
			return d, func() *table { return diffTable(d) }, nil
		})
}

func diffTable(d *v1alpha1.Differences) *table {
	if d.Answers > 0 || d.NotCompared > 0 {
		t := &table{head: []string{"PARENT", "LIVE", "TRIAL"}}
		for _, e := range d.Examples {
			t.add(e.Parent, e.Live, e.Trial)
		}
		t.foot = fmt.Sprintf("%s compared: %d want something else done%s", plural(int(d.Answers), "answer"), d.Otherwise, notCompared(d))
		return t
	}
	t := &table{head: []string{"POD", "NODE", "LIVE", "TRIAL"}}
	for _, e := range d.Examples {
		t.add(e.Pod, e.Node, e.Live, e.Trial)
	}
	t.foot = fmt.Sprintf("%s compared: nodes refused %d times, to %s; admitted %d times; another node is best for %s",
		plural(int(d.Pods), "pod"), d.Refused, plural(int(d.RefusedPods), "pod"), d.Admitted, plural(int(d.Scored), "pod"))
	return t
}
