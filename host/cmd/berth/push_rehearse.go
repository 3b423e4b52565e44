package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// maxShown is how many changed decisions a push prints.
const maxShown = 20

// tryOut has the last decisions made again with the module, and prints which
// would have ended otherwise. It fails where these are reasons not to go live,
// and a dry run where it is not possible.
func (f *pushFlags) tryOut(cmd *cobra.Command, c *client, name string, wasm []byte, m *v1alpha1.Module, e v1alpha1.ModuleEntry, was *v1alpha1.Policy) error {
	out := cmd.OutOrStdout()
	switch {
	case !inProfiles(e.Kind):
		fmt.Fprintf(out, "nothing to rehearse: a %s decides about no placement\n", e.Kind)
		return nil
	case f.rehearse == 0:
		return nil
	}
	v, err := f.variation(name, wasm, m, e)
	if err != nil {
		return err
	}
	done := during(cmd.ErrOrStderr(), fmt.Sprintf("making the last %d decisions again", f.rehearse))
	r, err := c.rehearse(cmd.Context(), v, f.rehearse)
	done()
	if err != nil {
		return f.unrehearsed(cmd.Context(), out, err, was)
	}
	if err := writeRehearsal(out, r); err != nil || !f.decides(was) {
		return err
	}
	return f.obey(out, r)
}

// unrehearsed says whether a push goes on though its rehearsal could not be made.
func (f *pushFlags) unrehearsed(ctx context.Context, out io.Writer, err error, was *v1alpha1.Policy) error {
	switch {
	case isBadRequest(err):
		return fmt.Errorf("the host would refuse it, and nothing has changed: %w", err)
	case f.dryRun || ctx.Err() != nil:
		return fmt.Errorf("rehearse: %w", err)
	case !f.decides(was):
		fmt.Fprintf(out, "not rehearsed: %v\n", err)
		return nil
	case f.force:
		fmt.Fprintf(out, "it could not be rehearsed: %v: goes live nevertheless, by --force\n", err)
		return nil
	}
	return fmt.Errorf("not live, nothing has changed: it could not be rehearsed: %w (--force makes it live nevertheless, --rehearse 0 without a rehearsal)", err)
}

// variation is the live set with what is pushed in it.
func (f *pushFlags) variation(name string, wasm []byte, m *v1alpha1.Module, e v1alpha1.ModuleEntry) (trial.Variation, error) {
	v := trial.Variation{Name: name, Module: m.Name, Entry: e.Name, Mode: v1alpha1.Enforce}
	if f.dryRun {
		v.Wasm, v.Signatures = wasm, m.Spec.Signatures
	}
	config, err := f.readConfig()
	if err != nil {
		return v, err
	}
	if f.canary == 0 {
		v.FailureMode, v.Limits = f.own.FailureMode, f.own.Limits
	}
	if config != nil && f.canary == 0 {
		v.Config = config.Raw
	}
	if f.joins {
		v.Profile, v.Weight = f.profile, f.weight
	}
	return v, nil
}

// decides says whether what is pushed is to decide anything.
func (f *pushFlags) decides(was *v1alpha1.Policy) bool {
	mode := v1alpha1.Mode(f.mode)
	if mode == "" && was != nil {
		mode = was.ModeOf()
	}
	return mode == "" || mode == v1alpha1.Enforce
}

// obey refuses to go on where a rehearsal says that it should not go live.
func (f *pushFlags) obey(out io.Writer, r *explain.Rehearsal) error {
	var against []string
	if r.Failed > 0 {
		against = append(against, fmt.Sprintf("it fails in %s, first: %s", plural(r.Failed, "decision"), r.Failure))
	}
	if r.RowsFailure != "" && r.Failed == 0 {
		against = append(against, fmt.Sprintf("it fails on %d nodes: %s", r.Rows, r.RowsFailure))
	}
	if r.Stranded > 0 && r.Failed == 0 {
		against = append(against, fmt.Sprintf("%s would find no node any more", plural(r.Stranded, "pod")))
	}
	switch {
	case len(against) == 0:
		return nil
	case f.force && !f.dryRun:
		fmt.Fprintf(out, "%s: goes live nevertheless, by --force\n", strings.Join(against, "; "))
		return nil
	}
	return fmt.Errorf("not live, nothing has changed: %s (--force makes it live nevertheless)", strings.Join(against, "; "))
}

func (c *client) rehearse(ctx context.Context, v trial.Variation, decisions int) (*explain.Rehearsal, error) {
	body, err := json.Marshal(berthapi.RehearsalRequest{Policies: []trial.Variation{v}, Decisions: decisions})
	if err != nil {
		return nil, err
	}
	r := new(explain.Rehearsal)
	return r, c.send(ctx, "POST", berthapi.RehearsePath, "application/json", body, r)
}

func writeRehearsal(out io.Writer, r *explain.Rehearsal) error {
	if r.Note != "" {
		fmt.Fprintf(out, "nothing to rehearse: %s\n", r.Note)
		return nil
	}
	fmt.Fprintf(out, "made the last decisions about %s again%s: %s\n", plural(r.Decisions, "pod"), andRoom(r.Preempting), elsewhere(r.Changed))
	if r.Remade > 0 && r.Changed == 0 {
		fmt.Fprintf(out, "%d of them were made by other policies than those that are live\n", r.Remade)
	}
	if r.Remade > 0 && r.Changed > 0 {
		fmt.Fprintf(out, "%d of them were made by other policies; WAS is where those that are live would put them\n", r.Remade)
	}
	if r.Outside > 0 {
		fmt.Fprintf(out, "%d more lie outside the recorded log\n", r.Outside)
	}
	if r.Changed == 0 {
		return nil
	}
	t := &table{head: []string{"POD", "WAS", "WOULD BE", "WHY"}}
	for _, ch := range r.Changes[:min(len(r.Changes), maxShown)] {
		t.add(ch.Namespace+"/"+ch.Pod, ch.Was, ch.Would, ch.Why)
	}
	if err := t.write(out); err != nil {
		return err
	}
	if more := r.Changed - len(t.rows); more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
	return nil
}

// andRoom tells of the decisions that made room for pods which are placed by now.
func andRoom(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %s that made room by preemption", plural(n, "decision"))
}

func elsewhere(n int) string {
	switch n {
	case 0:
		return "all would have ended as they did"
	case 1:
		return "1 would have ended otherwise"
	}
	return fmt.Sprintf("%d would have ended otherwise", n)
}
