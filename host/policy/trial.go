package policy

import (
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/intstr"

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
	mostRefused int64 // percent
	differences *differences
	ending      atomic.Pointer[ending]
	// changed is told of the end.
	changed func()
}

// ending is why a trial ended.
type ending struct{ reason, message string }

func newTrial(key string, spec *v1alpha1.Canary, changed func()) *trial {
	t := &trial{key: key, mostRefused: 100, changed: changed}
	if spec.MaxRefusals != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxRefusals, 100, false); err == nil {
			t.mostRefused = int64(n)
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
	if t.mostRefused >= 100 {
		return
	}
	d := t.differences
	d.mu.Lock()
	pods, refused := d.sum.Pods, d.sum.RefusedPods
	d.mu.Unlock()
	if refused*100 <= t.mostRefused*max(pods, fewestPods) {
		return
	}
	t.end(ReasonRefuses, fmt.Sprintf("it refuses nodes that the live module admits to %d of %d pods; at most %d %% were allowed", refused, pods, t.mostRefused))
}
