package main

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

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
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if args[0], err = nameOf(args[0], "policy", "policies", policyKind); err != nil {
			return err
		}
		return run(cmd, args)
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

// objectNames lists the objects at a path, for a shell, by their names alone.
func objectNames(cmd *cobra.Command, path, begun string) (names []string) {
	c, err := clientFor(cmd)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	var list metav1.PartialObjectMetadataList
	err = c.rest.Get().RequestURI(path).SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Into(&list)
	if err != nil {
		return nil
	}
	for i := range list.Items {
		if name := list.Items[i].Name; strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return names
}

// podNames are those of the namespace that the command is about.
func podNames(cmd *cobra.Command, begun string) []string { return namesIn(cmd, "pods", begun) }

// namesIn are those of a resource in the namespace that the command is about.
func namesIn(cmd *cobra.Command, resource, begun string) []string {
	c, err := clientFor(cmd)
	if err != nil {
		return nil
	}
	namespace, _ := cmd.Flags().GetString("namespace")
	return objectNames(cmd, "/api/v1/namespaces/"+url.PathEscape(c.in(namespace))+"/"+resource, begun)
}

// addNamespaceFlag gives cmd the flag -n.
func addNamespaceFlag(cmd *cobra.Command, into *string, usage string) {
	cmd.Flags().StringVarP(into, "namespace", "n", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return objectNames(cmd, "/api/v1/namespaces", begun), cobra.ShellCompDirectiveNoFileComp
	})
}

// contextNames are those of the kubeconfig.
func contextNames(cmd *cobra.Command, _ []string, begun string) (names []string, _ cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, _ = cmd.Flags().GetString("kubeconfig")
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, name := range slices.Sorted(maps.Keys(config.Contexts)) {
		if strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
