package policy

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
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

// mostHistory is how many former modules a status lists.
const mostHistory = 10

// report writes what became of a Policy into its status, if that is news.
func (l *Loader) report(ctx context.Context, one *live) {
	before := one.object.Status.Phase
	o, err := l.Objects.Update(ctx, store.Key{Resource: Policies, Name: one.object.Name}, func(o store.Object) (store.Object, error) {
		object := o.(*v1alpha1.Policy)
		if object.UID != one.object.UID {
			return o, nil
		}
		status := l.status(one, object.Status)
		if equality.Semantic.DeepEqual(status, object.Status) {
			return o, nil
		}
		object = object.DeepCopy()
		object.Status = status
		return object, nil
	})
	if errors.Is(err, store.ErrNotFound) || ctx.Err() != nil {
		return
	}
	if err != nil {
		l.Log.Warn("report policy", "policy", one.object.Name, "err", err)
		return
	}
	after := o.(*v1alpha1.Policy).Status
	if after.Phase != before && l.Event != nil {
		l.tellUser(o, after)
	}
}

func (l *Loader) tellUser(about store.Object, s v1alpha1.PolicyStatus) {
	switch s.Phase {
	case PhaseRefused, PhaseQuarantined:
		l.Event(about, "Warning", s.Phase, s.Message)
	case PhaseLive:
		l.Event(about, "Normal", s.Phase, "module "+s.Live+" is live")
	}
}

// status is what holds of a Policy, given its former status.
func (l *Loader) status(one *live, was v1alpha1.PolicyStatus) v1alpha1.PolicyStatus {
	s := v1alpha1.PolicyStatus{ObservedGeneration: one.object.Generation, History: was.History, Set: was.Set, Live: was.Live}
	if one.program == nil {
		s.Phase, s.Message, s.Live, s.Set = PhaseRefused, one.refused, "", 0
		return s
	}
	s.Kind = one.program.entry.Kind
	s.Differences = one.program.health.differences.get()
	digest := one.program.module.Digest()
	if s.Live != digest || s.Set == 0 {
		if was.Live != "" && was.Live != digest {
			s.History = pushed(was, digest, metav1.NewTime(l.Now()))
		}
		s.Live, s.Set = digest, l.Current().Number
	}
	switch quarantined, last := one.program.health.state(); {
	case one.refused != "":
		s.Phase, s.Message = PhaseRefused, one.refused
	case one.mode() == v1alpha1.Off:
		s.Phase = PhaseOff
	case quarantined:
		s.Phase, s.Message = PhaseQuarantined, last.Error()
	default:
		s.Phase = PhaseLive
	}
	return s
}

// pushed puts the module that was live until now in front of the history. The
// module that is live again leaves it.
func pushed(was v1alpha1.PolicyStatus, digest string, now metav1.Time) []v1alpha1.PolicyRevision {
	history := []v1alpha1.PolicyRevision{{Module: ModuleName(was.Live), Since: now, Reason: "Replaced"}}
	for _, r := range was.History {
		if r.Module != ModuleName(was.Live) && r.Module != ModuleName(digest) && len(history) < mostHistory {
			history = append(history, r)
		}
	}
	return history
}
