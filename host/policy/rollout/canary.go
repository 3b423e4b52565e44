package rollout

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// canary starts the canary that the Policy names, keeps it, or ends it.
func (t *transition) canary() {
	if a := t.in.Answer; a != nil && a.Load.For == ForCanary {
		if !a.Pending {
			t.canaryLoaded(a)
		}
		return
	}
	c := &t.Canary
	c.Phase, c.Before = c.Stands(), ""
	spec := t.Policy.Spec.Canary
	if spec == nil || t.Main.Live.None() || t.Policy.ModeOf() != v1alpha1.Enforce {
		t.withdrawCanary(spec != nil)
		return
	}
	trial := Trial(t.Policy)
	switch {
	case c.Phase == Running && c.Trial == trial:
		if t.in.Fault != nil {
			t.rollBack(t.in.Fault.Reason, t.in.Fault.Message)
		}
	case t.ended(trial) && !t.canaryAgain():
	case t.untriable(spec) != "":
		t.rollBack(v1alpha1.ReasonRefused, t.untriable(spec))
		t.do(ForgetTrial{})
	default:
		t.do(Load{For: ForCanary, Policy: t.Policy, Module: spec.Module, Kind: t.Main.Live.Kind, Name: t.Policy.Name + " canary " + trial})
	}
}

// canaryAgain says whether what could not be tried may do now.
func (t *transition) canaryAgain() bool {
	switch c := &t.Canary; {
	case c.Phase != Waiting:
		return false
	case !c.Retry.IsZero():
		return due(c.Retry, t.in.Now)
	default:
		return t.in.CanaryVersion != c.ModuleVersion
	}
}

// untriable says why the policy can have no such canary.
func (t *transition) untriable(spec *v1alpha1.Canary) string {
	switch kind := t.Main.Live.Kind; {
	case kind == abi.KindGate:
		return "a gate decides nothing by pod, so it can have no canary: put the module in as a Policy of its own, or push it"
	case kind == abi.KindController && spec.MaxRefusals != nil:
		return "a controller refuses no nodes: leave spec.canary.maxRefusals out"
	}
	return ""
}

// withdrawCanary ends a canary that is not wanted. That it was rolled back is
// known for as long as the spec names it.
func (t *transition) withdrawCanary(named bool) {
	t.endCanary()
	if !named || !t.ended(Trial(t.Policy)) {
		t.Canary = Canary{}
	}
}

// ended says whether the canary of that trial was rolled back already, maybe
// before this host started, or waits.
func (t *transition) ended(trial string) bool {
	if t.Canary.Ended != nil {
		return t.Canary.Trial == trial
	}
	s := t.Policy.Status.Canary
	if s == nil || s.Trial != trial || s.Phase != v1alpha1.PhaseRolledBack { // one that waits is looked for again
		return false
	}
	t.endCanary()
	t.Canary = Canary{Phase: RolledBack, Trial: trial, Module: s.Module, Ended: s.DeepCopy()}
	return true
}

// endCanary takes the running canary away.
func (t *transition) endCanary() {
	if t.Canary.Phase != Running {
		return
	}
	t.do(EndCanary{})
	t.do(Retire{t.Canary.Program})
	t.do(Publish{})
	t.Canary = Canary{}
}

// canaryLoaded puts the module on trial in the place of the one before it, if
// there is one and whether or not it loads.
func (t *transition) canaryLoaded(a *Answer) {
	t.Canary.Phase, t.Canary.Before = t.Canary.Stands(), ""
	t.endCanary()
	if no := a.Refusal; no != nil {
		t.rollBack(v1alpha1.ReasonRefused, no.Message)
		t.do(ForgetTrial{})
		if no.Waits || no.Passes {
			t.Canary.Phase, t.Canary.ModuleVersion, t.Canary.Ended.Phase = Waiting, no.ModuleVersion, v1alpha1.PhaseWaiting
		}
		if no.Passes {
			t.Canary.Retry = t.later()
		}
		return
	}
	trial := Trial(t.Policy)
	t.Canary = Canary{Phase: Running, Trial: trial, Module: t.Policy.Spec.Canary.Module, Program: a.Program}
	was := t.Policy.Status.Canary
	t.do(StartCanary{Program: a.Program, Trial: trial, Resume: was != nil && was.Trial == trial && was.Phase == v1alpha1.PhaseRunning})
	t.do(Publish{})
}

// rollBack ends the canary for a fault of its own.
func (t *transition) rollBack(reason, message string) {
	module, trial := t.Policy.Spec.Canary.Module, Trial(t.Policy)
	t.do(Warn{Text: "canary is rolled back", Module: module, Reason: reason, Message: message})
	t.endCanary()
	t.Canary = Canary{Phase: RolledBack, Trial: trial, Module: module, Ended: &v1alpha1.CanaryStatus{
		Module: module, Phase: v1alpha1.PhaseRolledBack, Reason: reason, Message: abi.Text(message, abi.MaxText),
		Since: t.in.Now, Trial: trial,
	}}
}
