package policy

import (
	"context"
	"errors"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// statusInputs are all that a status tells of, but for what is counted: two that
// are the same give the same status.
type statusInputs struct {
	object      *v1alpha1.Policy
	version     *version
	canary      *canary
	ended       *v1alpha1.CanaryStatus
	refused     string
	quarantined bool
	failures    int64
	idle        string
}

func (o *live) statusInputs() statusInputs {
	in := statusInputs{object: o.state.Policy, version: o.version, canary: o.canary, ended: o.state.Canary.Ended, refused: o.state.Main.Why, idle: o.idle}
	if o.version != nil {
		in.quarantined, _ = o.program.Health().State()
		in.failures = o.program.Health().Failures()
	}
	return in
}

// reporter writes statuses.
type reporter struct{ *Config }

// report writes what became of a Policy into its status, if that is news. It
// tells whether the status holds now.
func (r reporter) report(ctx context.Context, set *Set, one *live) bool {
	var before v1alpha1.PolicyStatus
	o, err := r.Objects.Update(ctx, store.Key{Resource: v1alpha1.Policies, Name: one.state.Policy.Name}, func(o store.Object) (store.Object, error) {
		object := o.(*v1alpha1.Policy)
		if object.UID != one.state.Policy.UID {
			return o, nil
		}
		before = object.Status
		status := rollout.Status(&one.state, &before, r.facts(set, one))
		if equality.Semantic.DeepEqual(status, object.Status) {
			return o, nil
		}
		object = object.DeepCopy()
		object.Status = status
		return object, nil
	})
	if errors.Is(err, store.ErrNotFound) || ctx.Err() != nil {
		return false
	}
	if err != nil {
		r.Log.Warn("report policy", "policy", one.state.Policy.Name, "err", err)
		return false
	}
	after := &o.(*v1alpha1.Policy).Status
	r.tellUser(o, &before, after)
	if one.version != nil && one.controller != nil && after.Phase == v1alpha1.PhaseNotRunning && after.Message != before.Message {
		one.controller.Note(slog.LevelError, "it does not run: "+after.Message)
	}
	return true
}

// tellUser makes Events of what has changed.
func (r reporter) tellUser(about store.Object, before, after *v1alpha1.PolicyStatus) {
	if r.Event == nil {
		return
	}
	for _, e := range rollout.Events(before, after) {
		r.Event(about, e.Type, e.Reason, e.Message)
	}
}

// counting is what compares the policy with something, nil if nothing does.
func (o *live) counting() *trial.Differences {
	switch {
	case o.canary != nil:
		return o.canary.Counts
	case o.version != nil && o.mode() == v1alpha1.Shadow:
		return o.shadow.Counts
	}
	return o.tried
}

// facts are what a Policy's status tells beside its state.
func (r reporter) facts(set *Set, one *live) *rollout.Facts {
	f := &rollout.Facts{Now: metav1.NewTime(r.Now()).Rfc3339Copy(), Set: set.Number, Idle: one.idle}
	if one.version == nil {
		return f
	}
	if d := one.counting(); d != nil {
		f.Counts, f.Differences = true, d.Get()
	}
	quarantined, last := one.program.Health().State()
	if f.Quarantined = quarantined; last != nil {
		f.Failure = last.Error()
	}
	return f
}
