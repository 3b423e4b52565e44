package rollout

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Facts are what a status tells beside the state.
type Facts struct {
	Now metav1.Time
	// Set is the number of the live set.
	Set int64
	// Quarantined says that the policy is not asked, for its last Failure; that
	// is empty where it was quarantined when the host ended.
	Quarantined bool
	Failure     string
	// Idle says why it is a controller that does not run.
	Idle string
	// Counts says that something is compared, with Differences.
	Counts      bool
	Differences *v1alpha1.Differences
}

// Status is what holds of a Policy, given its previous status.
func Status(s *State, was *v1alpha1.PolicyStatus, f *Facts) v1alpha1.PolicyStatus {
	is := v1alpha1.PolicyStatus{
		ObservedGeneration: s.Policy.Generation, History: was.History, Set: was.Set, Live: was.Live,
		Current: was.Current, Differences: was.Differences, Conditions: slices.Clone(was.Conditions),
	}
	is.Canary = canaryStatus(s, was.Canary, f.Now)
	if s.Main.Live.None() {
		is.Phase, is.Message, is.Live, is.Set, is.Kind = v1alpha1.PhaseRefused, s.Main.Why, "", 0, was.Kind
		setConditions(&is, f.Now)
		return is
	}
	is.Kind = s.Main.Live.Kind
	if f.Counts {
		is.Differences = f.Differences
	}
	is.History, is.Current = record(was, s.Main.Live.Revision, is.Canary, f.Now)
	if digest, _ := v1alpha1.Digest(s.Main.Live.Revision.Module); is.Live != digest || is.Set == 0 {
		is.Live, is.Set = digest, f.Set
	}
	is.Phase, is.Message = told(s, was, f)
	setConditions(&is, f.Now)
	return is
}

// told is the phase of a Policy of which something is live, as users know it.
func told(s *State, was *v1alpha1.PolicyStatus, f *Facts) (phase, message string) {
	switch {
	case s.Main.Stands() != Live:
		return v1alpha1.PhaseRefused, s.Main.Why
	case s.Policy.ModeOf() == v1alpha1.Off:
		return v1alpha1.PhaseOff, ""
	case f.Quarantined && f.Failure == "": // it was when the host ended
		return v1alpha1.PhaseQuarantined, was.Message
	case f.Quarantined:
		return v1alpha1.PhaseQuarantined, f.Failure
	case f.Idle != "":
		return v1alpha1.PhaseNotRunning, f.Idle
	case s.Policy.ModeOf() == v1alpha1.Shadow && s.Main.Live.Kind == abi.KindGate:
		return v1alpha1.PhaseNotRunning, "a gate in mode Shadow is asked nothing: there is nothing to compare it with; set mode to Enforce or Off"
	}
	return v1alpha1.PhaseLive, idleFailureMode(s.Policy, s.Main.Live.Kind)
}

// idleFailureMode tells of a failure mode that changes nothing, "" of others.
func idleFailureMode(p *v1alpha1.Policy, kind string) string {
	switch {
	case kind == abi.KindGate && p.FailsOpen():
		return "failureMode Open has no effect on a gate: its condition is Unknown while it fails; leave it out"
	case kind == abi.KindController && p.Spec.FailureMode != "":
		return "failureMode has no effect on a controller, which does nothing while it fails: leave it out"
	}
	return ""
}

func canaryStatus(s *State, was *v1alpha1.CanaryStatus, now metav1.Time) *v1alpha1.CanaryStatus {
	switch c := &s.Canary; {
	case c.Ended != nil:
		return c.Ended
	case c.Program.None():
		return nil
	case was != nil && was.Trial == c.Trial && was.Phase == v1alpha1.PhaseRunning:
		return was
	default:
		return &v1alpha1.CanaryStatus{Module: c.Module, Phase: v1alpha1.PhaseRunning, Since: now, Trial: c.Trial}
	}
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
	set(v1alpha1.ConditionLive, s.Phase == v1alpha1.PhaseLive, s.Phase, s.Message)
	if s.Canary == nil {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionCanary)
		return
	}
	running := s.Canary.Phase == v1alpha1.PhaseRunning
	reason := s.Canary.Reason
	if running {
		reason = v1alpha1.PhaseRunning
	}
	set(v1alpha1.ConditionCanary, running, reason, s.Canary.Message)
}

// Event is what users are told of a change, as Kubernetes' Events have it.
type Event struct{ Type, Reason, Message string }

// Events tell what has changed between two statuses.
func Events(before, after *v1alpha1.PolicyStatus) (events []Event) {
	if after.Phase != before.Phase || after.Live != before.Live {
		switch after.Phase {
		case v1alpha1.PhaseRefused, v1alpha1.PhaseQuarantined, v1alpha1.PhaseNotRunning:
			events = append(events, Event{"Warning", after.Phase, after.Message})
		case v1alpha1.PhaseLive:
			events = append(events, Event{"Normal", after.Phase, "module " + after.Live + " is live"})
		}
	}
	is, was := after.Canary, before.Canary
	if is == nil || was != nil && was.Trial == is.Trial && was.Phase == is.Phase {
		return events
	}
	switch is.Phase {
	case v1alpha1.PhaseRunning:
		return append(events, Event{"Normal", "CanaryStarted", "module " + is.Module + " is on trial"})
	case v1alpha1.PhaseWaiting:
		return append(events, Event{"Warning", "CanaryWaiting", is.Message})
	}
	return append(events, Event{"Warning", "CanaryRolledBack", fmt.Sprintf("module %s: %s: %s", is.Module, is.Reason, is.Message)})
}
