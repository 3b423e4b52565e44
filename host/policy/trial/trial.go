package trial

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// fewestPods is how many pods a share of refusals is at least a share of, so
// that the first pod does not speak for all.
const fewestPods = 20

// Trial has a module answer beside what is live, or for a share of the pods
// instead of it. It is safe for concurrent use: cycles tell it, the loader asks.
type Trial struct {
	// Share of the pods that it decides, in percent: 0 for a shadow, which is
	// asked about all of them and decides nothing.
	Share int32
	// Counts is how it differs from what decides.
	Counts     *Differences
	maxRefused int64 // percent
	ending     atomic.Pointer[Ending]
	// changed is told of the end.
	changed func()
}

// Ending is why a trial ended.
type Ending struct{ Reason, Message string }

// NewShadow is the trial of a policy that decides nothing.
func NewShadow() *Trial { return &Trial{Counts: new(Differences)} }

// NewCanary is the trial of a canary; changed is told of its end.
func NewCanary(spec *v1alpha1.Canary, changed func()) *Trial {
	t := &Trial{Share: spec.Share, Counts: new(Differences), maxRefused: 100, changed: changed}
	if spec.MaxRefusals != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxRefusals, 100, false); err == nil {
			t.maxRefused = int64(n)
		}
	}
	return t
}

// Ending is why it ended, nil while it goes on.
func (t *Trial) Ending() *Ending { return t.ending.Load() }

func (t *Trial) over() bool { return t.Ending() != nil }

// End ends it, unless it has ended.
func (t *Trial) End(reason, message string) {
	if t.ending.CompareAndSwap(nil, &Ending{reason, message}) && t.changed != nil {
		t.changed()
	}
}

// Compare asks what is tried about a cycle that is ending, and what is live where
// they are compared. A trial that is over asks nobody.
func (t *Trial) Compare(ctx context.Context, live, tried *sandbox.Sandbox, about *Cycle) {
	switch {
	case t.over():
	case t.Share == 0:
		t.Counts.shadow(ctx, tried, about)
	default:
		t.Counts.canary(ctx, live, tried, about)
		t.judge()
	}
}

// Fail ends the trial for any failure of the guest.
func (t *Trial) Fail(err error) {
	var f *engine.Failure
	switch {
	case sandbox.SpentFuel(err):
		t.End(v1alpha1.ReasonFuelSpent, err.Error())
	case errors.As(err, &f):
		t.End(v1alpha1.ReasonTrapped, err.Error())
	default:
		t.End(v1alpha1.ReasonFailed, err.Error())
	}
}

// judge ends the trial if the canary refuses more than it may.
func (t *Trial) judge() {
	if t.maxRefused >= 100 {
		return
	}
	d := t.Counts
	d.mu.Lock()
	pods, refused := d.sum.Pods, d.sum.RefusedPods
	d.mu.Unlock()
	if refused*100 <= t.maxRefused*max(pods, fewestPods) {
		return
	}
	t.End(v1alpha1.ReasonRefuses, fmt.Sprintf("it refuses nodes that the live module admits to %d of %d pods; at most %d %% were allowed", refused, pods, t.maxRefused))
}
