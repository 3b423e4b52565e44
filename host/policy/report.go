package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// Phases of a Policy.
const (
	PhaseLive        = "Live"
	PhaseRefused     = "Refused"
	PhaseQuarantined = "Quarantined"
	PhaseOff         = "Off"
)

// Phases of a canary.
const (
	PhaseRunning    = "Running"
	PhaseRolledBack = "RolledBack"
	// PhaseWaiting is a canary whose module is not there, or not signed, yet.
	PhaseWaiting = "Waiting"
)

// Conditions of a Policy.
const (
	ConditionLive   = "Live"
	ConditionCanary = "CanaryHealthy"
)

// telling is all that a status tells of, but for what is counted: two that are
// the same give the same status.
type statusInputs struct {
	object      *v1alpha1.Policy
	program     *program
	canary      *canary
	ended       *v1alpha1.CanaryStatus
	refused     string
	quarantined bool
	failures    int64
}

func (o *live) statusInputs() statusInputs {
	t := statusInputs{object: o.object, program: o.program, canary: o.canary, ended: o.ended, refused: o.refused}
	if o.program != nil {
		t.quarantined, _ = o.program.health.state()
		t.failures = o.program.health.failures.Load()
	}
	return t
}

// report writes what became of a Policy into its status, if that is news. It
// tells whether the status holds now.
func (l *Loader) report(ctx context.Context, one *live) bool {
	var before v1alpha1.PolicyStatus
	o, err := l.Objects.Update(ctx, store.Key{Resource: Policies, Name: one.object.Name}, func(o store.Object) (store.Object, error) {
		object := o.(*v1alpha1.Policy)
		if object.UID != one.object.UID {
			return o, nil
		}
		before = object.Status
		status := l.status(one, before)
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
		l.Log.Warn("report policy", "policy", one.object.Name, "err", err)
		return false
	}
	l.tellUser(o, before, o.(*v1alpha1.Policy).Status)
	return true
}

// tellUser makes Events of what has changed.
func (l *Loader) tellUser(about store.Object, before, after v1alpha1.PolicyStatus) {
	if l.Event == nil {
		return
	}
	if after.Phase != before.Phase || after.Live != before.Live {
		switch after.Phase {
		case PhaseRefused, PhaseQuarantined:
			l.Event(about, "Warning", after.Phase, after.Message)
		case PhaseLive:
			l.Event(about, "Normal", after.Phase, "module "+after.Live+" is live")
		}
	}
	is, was := after.Canary, before.Canary
	if is == nil || was != nil && was.Trial == is.Trial && was.Phase == is.Phase {
		return
	}
	switch is.Phase {
	case PhaseRunning:
		l.Event(about, "Normal", "CanaryStarted", "module "+is.Module+" is on trial")
		return
	case PhaseWaiting:
		l.Event(about, "Warning", "CanaryWaiting", is.Message)
		return
	}
	l.Event(about, "Warning", "CanaryRolledBack", fmt.Sprintf("module %s: %s: %s", is.Module, is.Reason, is.Message))
}

// reportTrials writes down what shadows and canaries have counted.
func (l *Loader) reportTrials(ctx context.Context) {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	for _, one := range l.policies {
		if d := one.counting(); d != nil && d.news() {
			l.report(ctx, one)
		}
	}
}

// counting is what compares the policy with something, nil if nothing does.
func (o *live) counting() *differences {
	switch {
	case o.canary != nil:
		return o.canary.counts
	case o.program != nil && o.mode() == v1alpha1.Shadow:
		return o.counts
	}
	return o.tried
}

// status is what holds of a Policy, given its former status.
func (l *Loader) status(one *live, was v1alpha1.PolicyStatus) v1alpha1.PolicyStatus {
	now := metav1.NewTime(l.Now()).Rfc3339Copy()
	s := v1alpha1.PolicyStatus{
		ObservedGeneration: one.object.Generation, History: was.History, Set: was.Set, Live: was.Live,
		Current: was.Current, Differences: was.Differences, Conditions: slices.Clone(was.Conditions),
	}
	s.Canary = l.canaryStatus(one, was.Canary, now)
	if one.program == nil {
		s.Phase, s.Message, s.Live, s.Set, s.Kind = PhaseRefused, one.refused, "", 0, was.Kind
		setConditions(&s, now)
		return s
	}
	s.Kind = one.program.entry.Kind
	if d := one.counting(); d != nil {
		s.Differences = d.get()
	}
	s.History, s.Current = recordHistory(one, &was, s.Canary, now)
	digest := one.program.module.Digest()
	if s.Live != digest || s.Set == 0 {
		s.Live, s.Set = digest, l.Current().Number
	}
	switch quarantined, last := one.program.health.state(); {
	case one.refused != "":
		s.Phase, s.Message = PhaseRefused, one.refused
	case one.mode() == v1alpha1.Off:
		s.Phase = PhaseOff
	case quarantined && last == nil: // it was when the host ended
		s.Phase, s.Message = PhaseQuarantined, was.Message
	case quarantined:
		s.Phase, s.Message = PhaseQuarantined, last.Error()
	default:
		s.Phase = PhaseLive
	}
	setConditions(&s, now)
	return s
}

func (l *Loader) canaryStatus(one *live, was *v1alpha1.CanaryStatus, now metav1.Time) *v1alpha1.CanaryStatus {
	switch {
	case one.ended != nil:
		return one.ended
	case one.canary == nil:
		return nil
	case was != nil && was.Trial == one.canary.trial.key && was.Phase == PhaseRunning:
		return was
	}
	return &v1alpha1.CanaryStatus{Module: one.canary.spec.Module, Phase: PhaseRunning, Since: now, Trial: one.canary.trial.key}
}

// setConditions tells the same in the way that `kubectl wait` understands.
func setConditions(s *v1alpha1.PolicyStatus, now metav1.Time) {
	set := func(kind string, holds bool, reason, message string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: s.ObservedGeneration, LastTransitionTime: now}
		if holds {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	set(ConditionLive, s.Phase == PhaseLive, s.Phase, s.Message)
	if s.Canary == nil {
		meta.RemoveStatusCondition(&s.Conditions, ConditionCanary)
		return
	}
	running := s.Canary.Phase == PhaseRunning
	reason := s.Canary.Reason
	if running {
		reason = PhaseRunning
	}
	set(ConditionCanary, running, reason, s.Canary.Message)
}
