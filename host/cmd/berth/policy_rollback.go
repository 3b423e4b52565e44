package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func newPolicyRollback() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Withdraw a canary, or make the previous revision live again",
		Long: "While a canary is on trial, withdraws it; while the newest spec is refused, withdraws that.\n" +
			"Else makes the newest revision of the history live again that was not itself rolled back\n" +
			"since, with its module, config and ServiceAccount; --to names another one.",
		Example: "  berth policy rollback gpu-only\n  berth policy rollback gpu-only --to 2c26f7026932    # see history",
		Args:    cobra.ExactArgs(1),
		RunE:    changing(func(p *v1alpha1.Policy) (map[string]any, error) { return goingBack(p, to) }),
	}
	cmd.Flags().StringVar(&to, "to", "", "the `module` to go back to, as berth policy history shows it")
	return cmd
}

// goingBack is the change of the spec.
func goingBack(p *v1alpha1.Policy, to string) (map[string]any, error) {
	if c := p.Status.Canary; to == "" && c != nil && c.Phase != v1alpha1.PhaseRolledBack {
		return map[string]any{"canary": nil}, nil
	}
	if live := p.Status.Current; to == "" && live != nil && p.Status.Phase == v1alpha1.PhaseRefused {
		return backTo(p, live), nil // what was pushed last is not live: withdraw it
	}
	if to == "" {
		if r := rollout.Previous(&p.Status); r != nil {
			return backTo(p, r), nil
		}
		return nil, fmt.Errorf("policy %s has no previous module to go back to: `berth policy history %s` shows what there was, --to picks one", p.Name, p.Name)
	}
	for i := range p.Status.History {
		r := &p.Status.History[i]
		current := p.Status.Current != nil && rollout.SameRevision(p.Status.Current, r)
		if !current && strings.HasPrefix(shortHex(r.Module), shortHex(to)) {
			return backTo(p, r), nil
		}
	}
	return nil, fmt.Errorf("policy %s has no module %s in its history: see `berth policy history %s`", p.Name, to, p.Name)
}

// backTo is the spec of a revision. Of a controller whose account nobody wrote
// down, the present one stays.
func backTo(p *v1alpha1.Policy, r *v1alpha1.PolicyRevision) map[string]any {
	spec := map[string]any{"module": r.Module, "entry": r.Entry, "config": r.Config, "canary": nil}
	if r.ServiceAccount != nil || p.Status.Kind != abi.KindController {
		spec["serviceAccount"] = r.ServiceAccount
	}
	return spec
}

func shortHex(digest string) string {
	return strings.TrimPrefix(strings.TrimPrefix(digest, "sha256:"), "sha256-")
}
