package policy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Why a canary was rolled back.
const (
	ReasonTrapped   = "Trapped"
	ReasonFuelSpent = "FuelSpent"
	ReasonFailed    = "Failed"
	ReasonRefuses   = "RefusesTooMuch"
	// ReasonRefused is a canary that did not even load.
	ReasonRefused = "Refused"
)

// fewestPods is how many pods a share of refusals is at least a share of, so
// that the first pod does not speak for all.
const fewestPods = 20

// trial watches a canary and ends at its first fault. It is safe for
// concurrent use: cycles tell it, the loader asks.
type trial struct {
	key         string
	maxRefused  int64 // percent
	differences *differences
	ending      atomic.Pointer[ending]
	// changed is told of the end.
	changed func()
}

// ending is why a trial ended.
type ending struct{ reason, message string }

func newTrial(key string, spec *v1alpha1.Canary, changed func()) *trial {
	t := &trial{key: key, maxRefused: 100, changed: changed}
	if spec.MaxRefusals != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxRefusals, 100, false); err == nil {
			t.maxRefused = int64(n)
		}
	}
	return t
}

func (t *trial) over() bool { return t.ending.Load() != nil }

func (t *trial) end(reason, message string) {
	if t.ending.CompareAndSwap(nil, &ending{reason, message}) && t.changed != nil {
		t.changed()
	}
}

// failed ends the trial for any failure of the guest.
func (t *trial) failed(err error) {
	var f *engine.Failure
	switch {
	case spentFuel(err):
		t.end(ReasonFuelSpent, err.Error())
	case errors.As(err, &f):
		t.end(ReasonTrapped, err.Error())
	default:
		t.end(ReasonFailed, err.Error())
	}
}

// judge ends the trial if the canary refuses more than it may.
func (t *trial) judge() {
	if t.maxRefused >= 100 {
		return
	}
	d := t.differences
	d.mu.Lock()
	pods, refused := d.sum.Pods, d.sum.RefusedPods
	d.mu.Unlock()
	if refused*100 <= t.maxRefused*max(pods, fewestPods) {
		return
	}
	t.end(ReasonRefuses, fmt.Sprintf("it refuses nodes that the live module admits to %d of %d pods; at most %d %% were allowed", refused, pods, t.maxRefused))
}

// takeCanary starts the canary that a Policy names, keeps it, or ends it. It
// tells whether the set changes.
func (l *Loader) takeCanary(ctx context.Context, one *live) (fresh bool) {
	one.settling = false
	was := one.canary
	if was != nil && was.live.main == one.main {
		one.tried = was.counts
		one.canary, was = nil, nil // it was promoted
	}
	spec := one.object.Spec.Canary
	if spec == nil || one.program == nil || one.mode() != v1alpha1.Enforce {
		if spec == nil || !one.endedBefore(trialOf(one.object)) {
			one.ended = nil
		}
		l.endTrial(one)
		return was != nil
	}
	key := trialOf(one.object)
	if was != nil && was.trial.key == key {
		if e := was.trial.ending.Load(); e != nil {
			one.ended = l.endedBy(one.object, e.reason, e.message)
			l.endTrial(one)
			return true
		}
		return false
	}
	if one.endedBefore(key) && !(one.ended.Phase == PhaseWaiting && l.version(spec.Module) != one.lacks) {
		return false
	}
	kind := one.program.entry.Kind
	next, err, done := l.fetch(ctx, one.object.Name+" canary "+key, func(ctx context.Context) (*live, error) {
		return l.loadCanary(ctx, one.object, kind)
	})
	if one.settling = !done; !done {
		return false
	}
	one.ended = nil
	l.endTrial(one)
	if err != nil {
		one.ended, one.tried = l.endedBy(one.object, ReasonRefused, err.Error()), new(differences)
		var w waiting
		if errors.As(err, &w) {
			one.ended.Phase, one.lacks = PhaseWaiting, w.version
		}
		return was != nil
	}
	t := newTrial(key, spec, func() { signal(l.wake) })
	t.differences, next.program.health.trial = next.counts, t
	if s := one.object.Status; s.Canary != nil && s.Canary.Trial == key && s.Canary.Phase == PhaseRunning {
		next.counts.resume(s.Differences)
	}
	one.canary = &canary{live: next, spec: *spec, trial: t}
	return true
}

// endTrial takes the canary away; what it counted stays.
func (l *Loader) endTrial(o *live) {
	if o.canary == nil {
		return
	}
	o.tried = o.canary.counts
	l.retire(o.canary.live)
	o.canary = nil
}

// loadCanary loads the module on trial.
func (l *Loader) loadCanary(ctx context.Context, object *v1alpha1.Policy, kind string) (*live, error) {
	if kind != abi.KindPredicate && kind != abi.KindPriority {
		return nil, fmt.Errorf("a %s decides nothing by pod, so it can have no canary: put the module in as a Policy of its own, or push it", kind)
	}
	return l.load(ctx, object, object.Spec.Canary.Module, kind)
}

// endedBefore says whether the canary that the Policy names was rolled back
// already, maybe before this host started.
func (o *live) endedBefore(key string) bool {
	if o.ended != nil {
		return o.ended.Trial == key
	}
	s := o.object.Status.Canary
	if s == nil || s.Trial != key || s.Phase != PhaseRolledBack { // one that waits is looked for again
		return false
	}
	o.ended = s.DeepCopy()
	return true
}

func (l *Loader) endedBy(p *v1alpha1.Policy, reason, message string) *v1alpha1.CanaryStatus {
	l.Log.Warn("canary is rolled back", "policy", p.Name, "module", p.Spec.Canary.Module, "reason", reason, "err", message)
	return &v1alpha1.CanaryStatus{
		Module: p.Spec.Canary.Module, Phase: PhaseRolledBack, Reason: reason, Message: abi.Text(message, abi.MaxText),
		Since: metav1.NewTime(l.Now()).Rfc3339Copy(), Trial: trialOf(p),
	}
}
