package main

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/explain"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{Use: "explain", Short: "Say why a pod is where it is, or why it waits"}
	cmd.AddCommand(newExplainPod())
	return cmd
}

func newExplainPod() *cobra.Command {
	var namespace, whyNot string
	var limit int
	cmd := &cobra.Command{
		Use:     "pod NAME",
		Short:   "Show each node by each policy: verdicts with reasons, scores, weights, totals",
		Example: "  berth explain pod web\n  berth explain pod web --why-not n2",
		Args:    cobra.ExactArgs(1),
	}
	format := addOutputFlag(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&namespace, "namespace", "n", "", "the pod's namespace")
	flags.StringVar(&whyNot, "why-not", "", "show this node alone")
	flags.IntVar(&limit, "limit", 20, "show at most this many nodes; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := clientFor(cmd)
		if err != nil {
			return err
		}
		if namespace == "" {
			namespace = c.namespace
		}
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if whyNot != "" {
			query.Set("node", whyNot)
		}
		report := new(explain.Report)
		path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/explain?%s", url.PathEscape(namespace), url.PathEscape(args[0]), query.Encode())
		if err := c.get(cmd.Context(), path, report); err != nil {
			return err
		}
		if *format == "table" {
			return report.Write(cmd.OutOrStdout())
		}
		return printAs(cmd.OutOrStdout(), *format, report, nil)
	}
	return cmd
}
