package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/policy/scaffold"
)

// tableOf says what the table of a test of each kind holds.
var tableOf = map[string]string{
	"predicate":  "nodes, pods and answers",
	"priority":   "nodes, pods and scores",
	"gate":       "pods, observations of them, and answers",
	"controller": "parents, their children, and answers",
}

func newPolicyNew() *cobra.Command {
	p := scaffold.Policy{}
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make the folder of a new policy: source, test, YAML and the SDK",
		Long: "Makes a folder NAME with a policy that builds at once, offline: the SDK is vendored from this\n" +
			"binary. Change main.go and main_test.go, then test and push it.",
		Example: "  berth policy new gpu-only --kind predicate\n  cd gpu-only && berth policy test && berth policy push",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Name = args[0]
			if err := scaffold.Write(p.Name, p); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s/ holds a %s that builds:\n"+
				"  main_test.go   a table of %s: begin here\n"+
				"  main.go        the policy\n"+
				"  policy.yaml    its name and settings, as `berth policy push` takes them\n"+
				"  vendor/        the SDK, so that nothing is downloaded\n"+
				"next: cd %[1]s && berth policy test && berth policy push\n", p.Name, p.Kind, tableOf[p.Kind])
			return nil
		},
	}
	cmd.Flags().StringVar(&p.Kind, "kind", "predicate", "what it is: "+strings.Join(scaffold.Kinds, ", "))
	oneOf(cmd, "kind", scaffold.Kinds...)
	return cmd
}
