package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/policy/builtin"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func newPolicyRemove() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm", "delete"},
		Short:   "Take a policy out of its profiles and delete it",
		Long: "Takes a policy out of the profiles that name it and deletes the Policy, which `kubectl delete\n" +
			"policy` alone leaves named there: a predicate's pods then wait. Its modules are collected within minutes, an hour after they\n" +
			"were uploaded at the earliest, if no other Policy uses them. A policy that comes with the host is not deleted: edit the profile to do without.",
		Example: "  berth policy remove gpu-only",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := clientFor(cmd)
			if err != nil {
				return err
			}
			return c.remove(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
}

// remove deletes a policy, or takes what is left of its name out of profiles.
func (c *client) remove(ctx context.Context, out io.Writer, name string) error {
	p, err := c.known(ctx, name)
	if err != nil {
		return err
	}
	if p != nil && p.Labels[builtin.Label] != "" {
		return fmt.Errorf("policy %s comes with the host: take it out of a profile by `kubectl edit profile default`, or push another in its place", name)
	}
	left, err := c.leave(ctx, name)
	if err != nil {
		return err
	}
	for _, profile := range left {
		fmt.Fprintf(out, "profile %s goes on without %s\n", profile, name)
	}
	if p == nil && len(left) > 0 {
		return nil
	}
	if p == nil {
		return noPolicy(name)
	}
	if err := c.send(ctx, "DELETE", policyAPI+"policies/"+p.Name, "application/json", nil, nil); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s is removed\n", orPolicy(p.Status.Kind), name)
	return nil
}

// leave takes a policy out of all profiles, and says which.
func (c *client) leave(ctx context.Context, name string) (left []string, err error) {
	var list v1alpha1.ProfileList
	if err := c.get(ctx, policyAPI+"profiles", &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		out, err := c.leaveOne(ctx, list.Items[i].Name, name)
		if err != nil {
			return left, fmt.Errorf("take %s out of profile %s: %w", name, list.Items[i].Name, err)
		}
		if out {
			left = append(left, list.Items[i].Name)
		}
	}
	return left, nil
}

// leaveOne takes a policy out of a profile, if it is in it, whatever others
// change in it meanwhile.
func (c *client) leaveOne(ctx context.Context, profile, name string) (out bool, err error) {
	for {
		p := new(v1alpha1.Profile)
		if err := c.get(ctx, policyAPI+"profiles/"+profile, p); err != nil {
			return false, err
		}
		if !strike(&p.Spec, name) {
			return false, nil
		}
		p.APIVersion, p.Kind = v1alpha1.GroupVersion.String(), "Profile"
		body, err := json.Marshal(p)
		if err != nil {
			return false, err
		}
		err = c.send(ctx, "PUT", policyAPI+"profiles/"+profile, "application/json", body, nil)
		if !isConflict(err) {
			return err == nil, err
		}
		if ctx.Err() != nil {
			return false, errors.Join(ctx.Err(), err)
		}
	}
}

// strike takes a name out of a profile and its groups, and says whether it was there.
func strike(s *v1alpha1.ProfileSpec, name string) bool {
	before := len(s.Predicates) + len(s.Priorities)
	s.Predicates = slices.DeleteFunc(s.Predicates, func(p v1alpha1.ProfilePredicate) bool { return p.Name == name })
	s.Priorities = slices.DeleteFunc(s.Priorities, func(p v1alpha1.ProfilePriority) bool { return p.Name == name })
	found := len(s.Predicates)+len(s.Priorities) < before
	for i := range s.Groups {
		g := &s.Groups[i]
		had := len(g.Members)
		g.Members = slices.DeleteFunc(g.Members, func(m string) bool { return m == name })
		found = found || len(g.Members) < had
	}
	return found
}
