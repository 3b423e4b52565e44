package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host"
)

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay NUMBER",
		Short: "Derive a past decision again, from its trace and the recorded changes",
		Long: "Derives the decision with that number again, by policies opened for it, from the state as it\n" +
			"was. `berth explain pod` shows a decision's number. One that lies outside the log in memory, or before\n" +
			"a restart, can be derived if the host records (--record).\n" +
			"Exit code 0: the same came out. 2: something else did, and the note says why if that is known.",
		Args: cobra.ExactArgs(1),
	}
	format := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := clientFor(cmd)
		if err != nil {
			return err
		}
		var r host.Replay
		if err := c.get(cmd.Context(), host.DecisionsPath+"/"+url.PathEscape(args[0])+"/again", &r); err != nil {
			return err
		}
		if err := printAs(cmd.OutOrStdout(), *format, &r, func() *table { return replayTable(&r) }); err != nil {
			return err
		}
		if !r.Same {
			return exitCode(2)
		}
		return nil
	}
	return cmd
}

func replayTable(r *host.Replay) *table {
	t := &table{head: []string{"DECISION", "POD", "AT", "OUTCOME", "NODE", "AGAIN", "SAME", "NOTE"}}
	t.add(fmt.Sprint(r.Number), r.Namespace+"/"+r.Pod, r.At.Format("2006-01-02T15:04:05.000Z07:00"), r.Outcome,
		r.Node, r.Again, fmt.Sprint(r.Same), r.Note)
	return t
}
