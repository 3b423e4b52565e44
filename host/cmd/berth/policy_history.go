package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func newPolicyHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the modules that a policy had, the newest first",
		Args:  cobra.ExactArgs(1),
	}
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
		return printAs(cmd.OutOrStdout(), *format, p.Status.History, func() *table { return historyTable(p) })
	}
	return cmd
}

// historyTable shows what is live, and under it what was, until when and why
// no longer.
func historyTable(p *v1alpha1.Policy) *table {
	t := &table{head: []string{"MODULE", "UNTIL", "WHY"}}
	t.add(shortDigest(p.Status.Live), "now", "live")
	for i := range p.Status.History {
		r := &p.Status.History[i]
		t.add(shortDigest(r.Module), r.Since.UTC().Format(time.RFC3339), r.Reason)
	}
	return t
}
