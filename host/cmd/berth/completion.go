package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// byName completes a command's first argument by the names of policies.
func byName(cmd *cobra.Command) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return policyNames(cmd, begun), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// byNameOrFile completes it by them and by files.
func byNameOrFile(cmd *cobra.Command) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return policyNames(cmd, begun), cobra.ShellCompDirectiveDefault
	}
	return cmd
}

// policyNames asks the host; a shell that completes shows no errors.
func policyNames(cmd *cobra.Command, begun string) (names []string) {
	c, err := clientFor(cmd)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	var list v1alpha1.PolicyList
	if c.get(ctx, policyAPI+"policies", &list) != nil {
		return nil
	}
	for i := range list.Items {
		if p := &list.Items[i]; strings.HasPrefix(p.Name, begun) {
			names = append(names, p.Name+"\t"+p.Status.Kind)
		}
	}
	return names
}

// oneOf completes a flag by the values that it takes.
func oneOf(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	})
}
