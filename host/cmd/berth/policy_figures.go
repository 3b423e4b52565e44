package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/policy/sandbox"
)

func newPolicyFigures() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "figures",
		Aliases: []string{"top"},
		Short:   "Show what each live policy has used: calls, failures, fuel, time",
		Example: "  berth policy figures -o json",
		Args:    cobra.NoArgs,
	}
	format := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := clientFor(cmd)
		if err != nil {
			return err
		}
		var all []sandbox.Figures
		if err := c.get(cmd.Context(), berthapi.FiguresPath, &all); err != nil {
			return err
		}
		return format.printAs(cmd.OutOrStdout(), all, func() *table { return figuresTable(all) })
	}
	return cmd
}

func figuresTable(all []sandbox.Figures) *table {
	t := &table{head: []string{"NAME", "CALLS", "FAILURES", "FUEL/CALL", "TIME/CALL", "MIB", "KIND", "MODULE"}, kind: policyKind, wide: 2}
	for i := range all {
		f := &all[i]
		calls := max(f.Calls, 1)
		t.add(f.Name, strconv.FormatInt(f.Calls, 10), strconv.FormatInt(f.Failures, 10),
			strconv.FormatInt(f.Fuel/calls, 10), fourDigits(f.Time/time.Duration(calls)).String(),
			mebibytes(f.Memory), f.Kind, shortDigest(f.Digest))
		t.note(f.Name, f.LastFailure)
	}
	return t
}

// fourDigits rounds a time to its first four digits, so that it fits its
// column whatever it is.
func fourDigits(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 10_000 {
		unit *= 10
	}
	return d.Round(unit)
}
