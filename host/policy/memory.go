package policy

import (
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// setPriority tells a policy's sandboxes for whom they give their memory up.
func (l *Loader) setPriority(one *live) {
	for _, former := range one.previous {
		former.setPriority(engine.PrioritySpare)
	}
	if one.version != nil {
		one.version.setPriority(l.priorityOf(one.version, one.state.Policy))
	}
	if one.canary != nil {
		one.canary.setPriority(l.priorityOf(one.canary.version, one.state.Policy))
	}
}

func (l *Loader) priorityOf(v *version, object *v1alpha1.Policy) engine.MemoryPriority {
	switch {
	case object.ModeOf() == v1alpha1.Off:
		return engine.PrioritySpare
	case object.ModeOf() == v1alpha1.Shadow:
		return engine.PriorityTrial
	case l.Modules.IsOwn(v.program.Digest()):
		return engine.PriorityFirst
	}
	return engine.PriorityCommon
}

func (o *version) setPriority(r engine.MemoryPriority) {
	o.main.SetPriority(r)
	if o.verifier != nil {
		o.verifier.SetPriority(engine.PrioritySpare)
	}
}

// retryForMemory has policies loaded again that were refused for want of memory, as
// soon as there is some.
func (l *Loader) retryForMemory() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	for _, one := range l.policies {
		if l.memoryFor(one) {
			signal(l.wake)
			return
		}
	}
}

func (l *Loader) memoryFor(o *live) bool {
	return o.state.Main.Stands() == rollout.WaitingForMemory && l.Engine.MemoryAvailable(o.state.Main.Memory)
}
