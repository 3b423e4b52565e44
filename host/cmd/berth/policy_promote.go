package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/policy"
)

func newPolicyPromote() *cobra.Command {
	return &cobra.Command{
		Use:   "promote NAME",
		Short: "Let a policy's canary decide all pods",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := clientFor(cmd)
			if err != nil {
				return err
			}
			began := time.Now()
			p, err := c.policy(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if p.Spec.Canary == nil {
				return fmt.Errorf("policy %s has no canary to promote", p.Name)
			}
			if s := p.Status.Canary; s != nil && s.Phase == policy.PhaseRolledBack {
				return fmt.Errorf("the canary of policy %s was rolled back: %s: %s; push the module without --canary if you want it nevertheless", p.Name, s.Reason, s.Message)
			}
			spec := map[string]any{"module": p.Spec.Canary.Module, "canary": nil}
			p, err = c.patchPolicy(cmd.Context(), p.Name, spec)
			if err != nil {
				return err
			}
			return c.reportLive(cmd, p, began)
		},
	}
}
