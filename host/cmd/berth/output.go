package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// addOutputFlag gives cmd the flag -o json|yaml|table.
func addOutputFlag(cmd *cobra.Command) *string {
	format := cmd.Flags().StringP("output", "o", "table", "how to print: table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp
	})
	return format
}

// table is rows under headings.
type table struct {
	head []string
	rows [][]string
	foot string // a line below all
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// oneLine keeps a cell in its row and column.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(tw, strings.Join(t.head, "\t"))
	for _, row := range t.rows {
		for i, cell := range row {
			if row[i] = oneLine.Replace(cell); cell == "" {
				row[i] = "<none>"
			}
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil || t.foot == "" {
		return err
	}
	_, err := fmt.Fprintln(w, t.foot)
	return err
}

// printAs writes value as JSON or YAML, or the table that asTable makes.
func printAs(w io.Writer, format string, value any, asTable func() *table) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "    ")
		return enc.Encode(value)
	case "yaml":
		data, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	case "table":
		return asTable().write(w)
	default:
		return fmt.Errorf("unknown output format %q: use table, json or yaml", format)
	}
}
