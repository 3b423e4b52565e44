package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func newPolicyPromote() *cobra.Command {
	return &cobra.Command{
		Use:     "promote NAME",
		Short:   "Let a policy's canary decide all pods",
		Example: "  berth policy push gpu-only ./examples/gpu-only --canary 10\n  berth policy promote gpu-only",
		Args:    cobra.ExactArgs(1),
		RunE: changing(func(p *v1alpha1.Policy) (map[string]any, error) {
			if p.Spec.Canary == nil {
				return nil, fmt.Errorf("policy %s has no canary to promote", p.Name)
			}
			s := p.Status.Canary
			if s != nil && s.Phase == v1alpha1.PhaseWaiting {
				return nil, fmt.Errorf("the canary of policy %s has decided nothing yet: %s", p.Name, s.Message)
			}
			if s != nil && s.Phase == v1alpha1.PhaseRolledBack {
				return nil, fmt.Errorf("the canary of policy %s was rolled back: %s: %s; push the module without --canary if you want it nevertheless", p.Name, s.Reason, s.Message)
			}
			return map[string]any{"module": p.Spec.Canary.Module, "canary": nil}, nil
		}),
	}
}

// changing runs a command that replaces parts of a Policy's spec and waits until
// that is live.
func changing(change func(*v1alpha1.Policy) (spec map[string]any, err error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := clientFor(cmd)
		if err != nil {
			return err
		}
		began := time.Now()
		p, err := c.policy(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		spec, err := change(p)
		if err != nil {
			return err
		}
		if p, err = c.patchPolicy(cmd.Context(), p.Name, spec); err != nil {
			return err
		}
		return c.reportLive(cmd, p, began)
	}
}
