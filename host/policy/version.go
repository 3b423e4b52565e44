package policy

import (
	"context"
	"errors"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// version is a program with the sandboxes by which it decides.
type version struct {
	is      rollout.Program
	program *sandbox.Program
	main    *sandbox.Sandbox
	// verifier answers a sample of remembered answers once more.
	verifier *sandbox.Sandbox
	// gate and controller ask main, where it is one.
	gate       *sandbox.Gate
	controller *sandbox.Controller
}

func (o *version) follow(ctx context.Context, log snapshot.Log) error {
	if o.verifier == nil {
		return o.main.Warm(ctx, log)
	}
	verified := make(chan error, 1)
	go func() { verified <- o.verifier.Follow(ctx, log) }()
	err := o.main.Warm(ctx, log)
	if other := <-verified; err == nil && !errors.Is(other, sandbox.ErrMemoryReclaimed) {
		err = other
	}
	return err
}

// closeAll gives back what a program holds that never went live.
func (o *version) closeAll() {
	o.main.Close()
	if o.verifier != nil {
		o.verifier.Close()
	}
}

// end gives back what the program holds in the set.
func (o *version) end() {
	o.main.Retire()
	if o.verifier != nil {
		o.verifier.Retire()
	}
	o.program.Leave()
}

func (o *version) setPriority(r engine.MemoryPriority) {
	o.main.SetPriority(r)
	if o.verifier != nil {
		o.verifier.SetPriority(engine.PrioritySpare)
	}
}

// maxWait is how long a load waits for the scheduler's state.
const maxWait = time.Second

// present is the scheduler's state; nil where there is none.
func (f *factory) present(ctx context.Context) snapshot.Log {
	if f.Present == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	log, err := f.Present(ctx)
	if err != nil {
		return nil
	}
	return log
}

// follows brings a program that no cycle asks up to the present state.
func (f *factory) follows(ctx context.Context, one *version, object *v1alpha1.Policy) error {
	if one.gate != nil || one.controller != nil || object.ModeOf() == v1alpha1.Off {
		return nil
	}
	if log := f.present(ctx); log != nil {
		return one.follow(ctx, log)
	}
	return nil
}

// setPriority tells a policy's sandboxes for whom they give their memory up.
func (f *factory) setPriority(one *live) {
	for _, former := range one.previous {
		former.setPriority(engine.PrioritySpare)
	}
	if one.version != nil {
		one.version.setPriority(f.priorityOf(one.version, one.state.Policy))
	}
	if one.canary != nil {
		one.canary.setPriority(f.priorityOf(one.canary.version, one.state.Policy))
	}
}

func (f *factory) priorityOf(v *version, object *v1alpha1.Policy) engine.MemoryPriority {
	switch {
	case object.ModeOf() == v1alpha1.Off:
		return engine.PrioritySpare
	case object.ModeOf() == v1alpha1.Shadow:
		return engine.PriorityTrial
	case f.modules.IsOwn(v.program.Digest()):
		return engine.PriorityFirst
	}
	return engine.PriorityCommon
}
