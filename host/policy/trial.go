package policy

import (
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

// trial watches a canary and ends at its first fault. It is safe for
// concurrent use: cycles tell it, the loader asks.
type trial struct {
	maxRefused  int64 // percent
	differences *differences
	ending      atomic.Pointer[ending]
	// changed is told of the end.
	changed func()
}

// ending is why a trial ended.
type ending struct{ reason, message string }

func newTrial(spec *v1alpha1.Canary, changed func()) *trial {
	t := &trial{maxRefused: 100, changed: changed}
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
	case sandbox.SpentFuel(err):
		t.end(v1alpha1.ReasonFuelSpent, err.Error())
	case errors.As(err, &f):
		t.end(v1alpha1.ReasonTrapped, err.Error())
	default:
		t.end(v1alpha1.ReasonFailed, err.Error())
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
	t.end(v1alpha1.ReasonRefuses, fmt.Sprintf("it refuses nodes that the live module admits to %d of %d pods; at most %d %% were allowed", refused, pods, t.maxRefused))
}
