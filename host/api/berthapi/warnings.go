package berthapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// Bounds of what a dry run of a Policy's write is told.
const (
	rehearsalTime = 5 * time.Second
	maxRehearsed  = 100 // decisions
	maxExamples   = 5
	usualProfile  = "default"
	pushHint      = "; `berth policy push %s --dry-run` tells more"
)

// DecidesNothing begins what warns of a Policy that no Profile names.
const DecidesNothing = "no Profile names "

// Warnings is an admission plugin that warns whoever writes a Policy: of a
// module that is not there, and in a dry run of what its rehearsal finds. It
// refuses nothing.
type Warnings struct{ api *API }

// Admit implements registry.Admission: it changes nothing.
func (Warnings) Admit(context.Context, *registry.Attributes) error { return nil }

// Validate implements registry.Admission.
func (w Warnings) Validate(ctx context.Context, a *registry.Attributes) error {
	if m, ok := a.Old.(*v1alpha1.Module); ok && a.Operation == registry.Delete {
		w.used(m, a.Warn)
		return nil
	}
	p, ok := a.Object.(*v1alpha1.Policy)
	if !ok || a.Subresource != "" {
		return nil
	}
	w.missing(ctx, p, a.Warn)
	if a.DryRun {
		ctx, cancel := context.WithTimeout(ctx, rehearsalTime)
		defer cancel()
		w.rehearse(ctx, p, a.Warn)
	}
	return nil
}

// maxUsers is how many policies a warning names.
const maxUsers = 5

// used warns whoever deletes a Module that policies need.
func (w Warnings) used(m *v1alpha1.Module, warn func(string)) {
	users := w.api.Policies.Users(m.Spec.Digest)
	if len(users) == 0 {
		return
	}
	who := strings.Join(users[:min(len(users), maxUsers)], ", ")
	if n := len(users) - maxUsers; n > 0 {
		who = fmt.Sprintf("%s and %d more", who, n)
	}
	warn(fmt.Sprintf("%s need this module: its bytes stay as long as they do, its signatures go, for which a host that trusts keys looks when it starts", who))
}

// missing warns of what the Policy names and is not there.
func (w Warnings) missing(ctx context.Context, p *v1alpha1.Policy, warn func(string)) {
	if c := p.Spec.Canary; c != nil {
		if _, why := w.module(ctx, c.Module); why != "" {
			warn("spec.canary.module: " + why)
		}
	}
	m, why := w.module(ctx, p.Spec.Module)
	if why != "" {
		warn("spec.module: " + why)
	}
	if m == nil {
		return
	}
	entries := m.Status.Entries
	for _, e := range entries {
		if p.Spec.Entry == e.Name || p.Spec.Entry == "" && (e.Name == p.Name || len(entries) == 1) {
			w.unnamed(p, e.Kind, warn)
			return
		}
	}
	warn(fmt.Sprintf("spec.entry: the module has no policy %q: name one that `kubectl get module -o wide` shows", p.Spec.Entry))
}

// module is the Module of a name, or why a Policy cannot have it; neither, where
// it was deleted and its bytes are still here.
func (w Warnings) module(ctx context.Context, name string) (m *v1alpha1.Module, why string) {
	digest, err := v1alpha1.Digest(name)
	if err != nil {
		return nil, err.Error()
	}
	o, ok := w.api.Store.Get(store.Key{Resource: v1alpha1.Modules, Name: v1alpha1.ModuleName(digest)})
	if ok {
		return o.(*v1alpha1.Module), ""
	}
	if here, err := w.api.Store.Blobs(ctx); err == nil && slices.Contains(here, digest) {
		return nil, ""
	}
	return nil, name + " is not there: the policy waits until it is uploaded"
}

// unnamed warns of a policy that decides nothing, since no profile names it.
func (w Warnings) unnamed(p *v1alpha1.Policy, kind string, warn func(string)) {
	if kind != "predicate" && kind != "priority" || w.api.Policies.Current().Named(p.Name) {
		return
	}
	field := "predicates"
	if kind == "priority" {
		field = "priorities"
	}
	warn(fmt.Sprintf(DecidesNothing+"%s, so it decides nothing yet: add it to spec.%s, as by `kubectl edit profile %s`", p.Name, field, usualProfile))
}

// rehearse warns of what the last decisions would have become.
func (w Warnings) rehearse(ctx context.Context, p *v1alpha1.Policy, warn func(string)) {
	v := trial.Variation{Name: p.Name, Object: p}
	if p.Spec.Canary != nil {
		v.Module = p.Spec.Canary.Module
	}
	if !w.api.Policies.Current().Named(p.Name) {
		v.Profile = usualProfile
	}
	release, ok := w.api.planning.take(ctx)
	if !ok {
		warn("not rehearsed: another rehearsal is under way")
		return
	}
	defer release()
	r, err := w.api.rehearsed(ctx, &RehearsalRequest{Policies: []trial.Variation{v}, Decisions: maxRehearsed})
	switch {
	case ctx.Err() != nil:
		warn(fmt.Sprintf("not rehearsed within %s"+pushHint, rehearsalTime, p.Name))
	case errors.Is(err, module.ErrRefused):
		warn("the policy would be refused: " + err.Error())
	case err != nil:
		warn("not rehearsed: " + err.Error())
	default:
		tellRehearsal(r, &v, warn)
	}
}

func tellRehearsal(r *explain.Rehearsal, v *trial.Variation, warn func(string)) {
	kind := r.Kinds[0]
	switch {
	case kind != "predicate" && kind != "priority":
		warn(fmt.Sprintf("nothing to rehearse: a %s decides about no placement", kind))
		return
	case r.Note != "":
		warn("nothing to rehearse: " + r.Note)
		return
	}
	where := ""
	if v.Profile != "" {
		where = " in profile " + v.Profile
	}
	warn(fmt.Sprintf("rehearsed%s: of the last decisions about %d pods, %d would have ended otherwise", where, r.Decisions, r.Changed))
	shown := r.Changes[:min(len(r.Changes), maxExamples)]
	for _, c := range shown {
		warn(fmt.Sprintf("%s/%s would go to %s instead of %s: %s", c.Namespace, c.Pod, orNowhere(c.Would), orNowhere(c.Was), c.Why))
	}
	if more := r.Changed - len(shown); more > 0 {
		warn(fmt.Sprintf("and %d more"+pushHint, more, v.Name))
	}
}

func orNowhere(node string) string {
	if node == "" {
		return "no node"
	}
	return node
}
