package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/host/explain"
)

// How wide help is where nobody knows the screen, and at most.
const (
	usualColumns = 80
	mostColumns  = 100
)

// help prints what a command is for: text and flags are broken where the screen ends.
func help(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	columns := min(cmp.Or(lookOf(out).columns, usualColumns), mostColumns)
	usage := cmd.UsageString()
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		if usages := strings.TrimRight(flags.FlagUsages(), "\n"); usages != "" {
			usage = strings.Replace(usage, usages, flagHelp(usages, columns), 1)
		}
	}
	fmt.Fprintf(out, "%s\n\n%s", paragraphs(cmp.Or(cmd.Long, cmd.Short), columns), usage)
}

// paragraphs breaks a text anew, but for what is indented.
func paragraphs(text string, columns int) string {
	all := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range all {
		lines := strings.Split(p, "\n")
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") }) {
			all[i] = explain.Fill(p, columns, 0, 0)
		}
	}
	return strings.Join(all, "\n\n")
}

// below is where the text of a flag begins that has no room beside its name.
const below = 10

// flagHelp breaks the texts of flags, as pflag lists them: beside their names, or
// below these where they would take the greater part of the screen, and pflag's own
// wrapping would leave texts a column of some twenty.
func flagHelp(usages string, columns int) string {
	lines := strings.Split(usages, "\n")
	for i, line := range lines {
		at := strings.LastIndex(line, "   ") + 3
		name, text := line[:at], line[at:]
		if at <= columns/2 {
			lines[i] = name + explain.Fill(text, columns, at, at)
			continue
		}
		lines[i] = strings.TrimRight(name, " ") + "\n" + strings.Repeat(" ", below) + explain.Fill(text, columns, below, below)
	}
	return strings.Join(lines, "\n")
}
