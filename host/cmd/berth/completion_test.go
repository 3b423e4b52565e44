package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestAShellCompletesNamesAndValues(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	schedulable(t, kubeconfig, 2, 1)
	for args, want := range map[string]string{
		"policy logs PodFits": "PodFitsResources\tpredicate", "policy rollback Least": "LeastRequestedPriority\tpriority",
		"policy push Repl": "ReplicaSet\tcontroller", "policy inspect Min": "MinReadySeconds\tgate",
		"policy new x --kind |": "controller", "policy push --mode |": "Shadow", "policy logs x --level |": "warn", "policy list -o |": "yaml",
		"explain pod |": "p0", "explain pod/": "pod/p0", "explain pod p0 --why-not |": "n1", "explain pod p0 -n kube-s": "kube-system", "policy list --context |": "berth",
	} {
		given := append([]string{cobra.ShellCompRequestCmd, "--kubeconfig", kubeconfig}, strings.Fields(args)...)
		if last := len(given) - 1; given[last] == "|" {
			given[last] = ""
		}
		if out := mustBerth(t, given...); !strings.Contains(out, want) {
			t.Errorf("%s completes by %q, want %s", args, out, want)
		}
	}
}

func TestEachCommandAboutPoliciesShowsAnExample(t *testing.T) {
	t.Parallel()
	for _, cmd := range append(newPolicy().Commands(), newReplay()) {
		if cmd.Example == "" {
			t.Errorf("%s --help shows no example", cmd.Name())
		}
	}
}
