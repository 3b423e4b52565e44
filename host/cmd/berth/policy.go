package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/host/policy/builtin"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Write, push and look after policies",
	}
	cmd.AddCommand(
		newPolicyNew(), newPolicyTest(), newPolicyRun(), newPolicyBench(), newPolicyBuild(), byNameOrFile(newPolicyInspect()), newPolicySign(), newPolicyVerify(),
		byNameOrFile(newPolicyPush()), newPolicyList(), byName(newPolicyHistory()), byName(newPolicyDiff()), byName(newPolicyRollback()),
		byName(newPolicyPromote()), byName(newPolicyRemove()), byName(newPolicyLogs()), newPolicyFigures(),
	)
	return cmd
}

func newPolicyList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List the policies and what is live of them", Example: "  berth policy list\n  berth policy list -w\n  berth policy list -o jsonpath='{.items[*].metadata.name}'", Args: cobra.NoArgs}
	format := addOutputFlag(cmd)
	watch := false
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "after listing, print each change")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := clientFor(cmd)
		if err != nil {
			return err
		}
		var list v1alpha1.PolicyList
		if err := c.get(cmd.Context(), policyAPI+"policies", &list); err != nil {
			return err
		}
		ownFirst(list.Items, isBuiltin)
		out := cmd.OutOrStdout()
		if err := format.printAs(out, &list, func() *table { return policyTable(list.Items) }); err != nil || !watch {
			return err
		}
		return c.watchPolicies(cmd.Context(), out, format, list.ResourceVersion)
	}
	return cmd
}

// watchPolicies prints what changes, as kubectl get -w does.
func (c *client) watchPolicies(ctx context.Context, out io.Writer, format *output, since string) error {
	stream, err := c.rest.Get().RequestURI(policyAPI+"policies").Param("watch", "1").Param("resourceVersion", since).
		SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return explainStatus(nil, err)
	}
	defer stream.Close()
	each := *format
	each.noHeaders = true
	for events := json.NewDecoder(stream); ; {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		switch err := events.Decode(&event); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("the watch has ended, with the host or by its time (%w): list again to go on", err)
		case event.Type == "ERROR":
			return fmt.Errorf("the watch has ended: %s: list again to go on", saidBy(event.Object))
		case event.Type == "BOOKMARK":
			continue
		}
		one := make([]v1alpha1.Policy, 1)
		if err := json.Unmarshal(event.Object, &one[0]); err != nil {
			return err
		}
		if err := each.printAs(out, &one[0], func() *table { return policyTable(one) }); err != nil {
			return err
		}
	}
}

// saidBy is the message of a Status, or all that came in its place.
func saidBy(object []byte) string {
	var status struct{ Message string }
	if json.Unmarshal(object, &status) != nil || status.Message == "" {
		return string(object)
	}
	return status.Message
}

func policyTable(policies []v1alpha1.Policy) *table {
	t := &table{kind: policyKind, head: []string{"NAME", "KIND", "PHASE", "LIVE", "AGE", "MODE", "SET", "ENTRY"}, wide: 3}
	for i := range policies {
		p := &policies[i]
		phase := p.Status.Phase
		if phase == v1alpha1.PhaseLive && p.ModeOf() == v1alpha1.Shadow {
			phase = string(v1alpha1.Shadow) // it decides nothing
		}
		t.add(p.Name, p.Status.Kind, phase, shortDigest(p.Status.Live), age(p.CreationTimestamp),
			string(p.ModeOf()), strconv.FormatInt(p.Status.Set, 10), entryOf(p))
		t.note(p.Name, p.Status.Message)
	}
	return t
}

// policyKind is what kubectl calls policies in -o name.
const policyKind = "policy.policy.berth.dev"

func isBuiltin(p *v1alpha1.Policy) bool { return p.Labels[builtin.Label] != "" }

// shortDigest is what people compare by eye.
func shortDigest(digest string) string {
	hex := shortHex(digest)
	if len(hex) > 12 {
		return hex[:12]
	}
	return hex
}

// policy returns the Policy of that name.
func (c *client) policy(ctx context.Context, name string) (*v1alpha1.Policy, error) {
	p := new(v1alpha1.Policy)
	err := c.get(ctx, policyAPI+"policies/"+name, p)
	if isNotFound(err) {
		return nil, noPolicy(name)
	}
	return p, err
}

func noPolicy(name string) error {
	return fmt.Errorf("there is no policy %s: `berth policy list` shows those there are", name)
}

func isNotFound(err error) bool   { return apierrors.IsNotFound(cause(err)) }
func isBadRequest(err error) bool { return apierrors.IsBadRequest(cause(err)) }
func isForbidden(err error) bool  { return apierrors.IsForbidden(cause(err)) }
func isConflict(err error) bool   { return apierrors.IsConflict(cause(err)) }

// cause takes the client's own error out of what explainStatus made of it.
func cause(err error) error {
	var said *serverError
	if errors.As(err, &said) {
		return said.cause
	}
	return err
}

// patchPolicy replaces parts of a Policy's spec, each as a whole: a merge would
// keep what an older config had and a newer one leaves out.
func (c *client) patchPolicy(ctx context.Context, name string, spec map[string]any) (*v1alpha1.Policy, error) {
	type replace struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var patch []replace
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		patch = append(patch, replace{"add", "/spec/" + field, spec[field]})
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	p := new(v1alpha1.Policy)
	return p, c.send(ctx, "PATCH", policyAPI+"policies/"+name, "application/json-patch+json", body, p)
}

// settled waits until the host has said what it made of p's spec.
func (c *client) settled(ctx context.Context, p *v1alpha1.Policy) (*v1alpha1.Policy, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	generation := p.Generation
	for {
		if p.Status.ObservedGeneration >= generation {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the host has not taken up policy %s in a minute: is it running?", p.Name)
		case <-time.After(5 * time.Millisecond):
		}
		next, err := c.policy(ctx, p.Name)
		if err != nil {
			return nil, err
		}
		p = next
	}
}

// reportLive waits for p to be live and prints what is; a refusal is an error.
func (c *client) reportLive(cmd *cobra.Command, p *v1alpha1.Policy, began time.Time) error {
	done := during(cmd.ErrOrStderr(), "waiting for the host to take "+p.Name+" up")
	p, err := c.settled(cmd.Context(), p)
	done()
	if err != nil {
		return err
	}
	if p.Status.Phase == v1alpha1.PhaseRefused {
		return fmt.Errorf("policy %s was refused, the previous set stays live: %s", p.Name, p.Status.Message)
	}
	out := cmd.OutOrStdout()
	if c := p.Status.Canary; c != nil && c.Phase != v1alpha1.PhaseRunning {
		return fmt.Errorf("the canary of policy %s is out, the live module decides on: %s: %s", p.Name, c.Reason, c.Message)
	}
	if c := p.Status.Canary; c != nil {
		fmt.Fprintf(out, "%s %s has a canary: module %s decides %d %% of the pods\nlive after %s; see `berth policy diff %s`\n",
			orPolicy(p.Status.Kind), p.Name, shortDigest(c.Module), p.Spec.Canary.Share, took(began), p.Name)
		return nil
	}
	if p.Status.Phase == v1alpha1.PhaseNotRunning {
		text := fmt.Sprintf("controller %s is loaded as module %s and does NOT run: %s", p.Name, shortDigest(p.Status.Live), p.Status.Message)
		fmt.Fprintln(out, lookOf(out).wrapped(text))
		return nil
	}
	fmt.Fprintf(out, "%s %s is %s: module %s, set %d, after %s\n",
		orPolicy(p.Status.Kind), p.Name, standing(p), shortDigest(p.Status.Live), p.Status.Set, took(began))
	return nil
}

// standing is what became of a policy by its mode.
func standing(p *v1alpha1.Policy) string {
	switch p.Spec.Mode {
	case v1alpha1.Shadow:
		return fmt.Sprintf("a shadow, which decides nothing (`berth policy diff %s`)", p.Name)
	case v1alpha1.Off:
		return "off, and asked about nothing"
	}
	return "live"
}

func took(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }

func orPolicy(kind string) string {
	if kind == "" {
		return "policy"
	}
	return kind
}
