package policy

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// pass carries out what becomes of one Policy.
type pass struct {
	*Loader
	one *live
	// known are all versions that an action may name.
	known []*version
	// publishes says that the set changes.
	publishes bool
}

// take makes the live form of one Policy; fresh tells that the set changes.
// There is none while the first program of a Policy is being loaded.
func (l *Loader) take(ctx context.Context, old *live, object *v1alpha1.Policy) (one *live, fresh bool) {
	one = new(live)
	if old != nil {
		*one = *old
	}
	p := &pass{Loader: l, one: one}
	one.each(func(v *version) { p.known = append(p.known, v) })
	for in := p.input(object); ; {
		var actions []rollout.Action
		one.state, actions = rollout.Next(one.state, in)
		in.Answer = nil
		for _, a := range actions {
			if load, ok := a.(rollout.Load); ok {
				in.Answer = p.load(ctx, load)
				continue
			}
			p.carryOut(ctx, a)
		}
		if in.Answer == nil {
			break
		}
	}
	if one.state.Policy == nil {
		return nil, false
	}
	return one, p.publishes
}

// input is what the Policy's next state depends on.
func (p *pass) input(object *v1alpha1.Policy) rollout.Input {
	state := &p.one.state
	in := rollout.Input{Now: metav1.NewTime(p.Now()).Rfc3339Copy(), Policy: object, Starting: p.programs.starting()}
	switch state.Main.Stands() {
	case rollout.WaitingForModule:
		in.ModuleVersion = p.Modules.Version(object.Spec.Module)
	case rollout.WaitingForMemory:
		in.Memory = p.Engine.MemoryAvailable(state.Main.Memory)
	}
	if object.Spec.Canary != nil && state.Canary.Stands() == rollout.Waiting {
		in.CanaryVersion = p.Modules.Version(object.Spec.Canary.Module)
	}
	if p.one.canary != nil {
		if e := p.one.canary.Ending(); e != nil {
			in.Fault = &rollout.Fault{Reason: e.Reason, Message: e.Message}
		}
	}
	return in
}

// load answers a Load. The last good revision is waited for: there is nothing
// else to decide by.
func (p *pass) load(ctx context.Context, a rollout.Load) *rollout.Answer {
	began := p.Now()
	load := func(ctx context.Context) (*version, error) { return p.programs.load(ctx, a.Policy, a.Module, a.Kind) }
	fetch := p.background.fetch
	if a.For == rollout.ForLastGood {
		fetch = await
	}
	v, err, done := fetch(ctx, a.Name, load)
	if err != nil && ctx.Err() != nil {
		done = false // the host ends, which is no fault of the module
	}
	answer := &rollout.Answer{Load: a, Pending: !done}
	switch {
	case !done:
	case err != nil:
		answer.Refusal = refusalOf(err)
	default:
		answer.Program = v.is
		p.known = append(p.known, v)
		if a.For == rollout.ForMain {
			p.Log.Log(ctx, p.loadLevel(), "policy loaded", "policy", a.Policy.Name, "digest", v.program.Digest(), "took", p.Now().Sub(began))
		}
	}
	return answer
}

func refusalOf(err error) *rollout.Refusal {
	no := &rollout.Refusal{Message: err.Error(), Memory: sandbox.MemoryNeeded(err)}
	var trouble module.HostError
	no.Passes = errors.As(err, &trouble)
	var w module.UnavailableError
	if errors.As(err, &w) {
		no.Waits, no.ModuleVersion = true, w.Version
	}
	return no
}

// loadLevel is Info for what a user brings, Debug for what a start finds.
func (p *pass) loadLevel() slog.Level {
	if p.programs.starting() {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func (p *pass) carryOut(ctx context.Context, a rollout.Action) {
	one := p.one
	switch a := a.(type) {
	case rollout.Use:
		p.use(ctx, a.Program)
	case rollout.Retire:
		p.drain.retire(p.version(a.Program))
	case rollout.StartCanary:
		one.canary = p.startCanary(a)
	case rollout.EndCanary:
		one.tried = one.canary.Counts
		if a.Promoted {
			one.canary.End("", "")
		}
		one.canary = nil
	case rollout.CountAnew:
		one.shadow, one.tried = trial.NewShadow(), new(trial.Differences)
	case rollout.ForgetTrial:
		one.tried = new(trial.Differences)
	case rollout.ResumeShadow:
		one.shadow.Counts.Resume(one.state.Policy.Status.Differences)
	case rollout.Publish:
		p.publishes = true
	case rollout.Warn:
		p.warn(ctx, a)
	}
}

// version finds what a program is the name of.
func (p *pass) version(is rollout.Program) *version {
	return p.known[slices.IndexFunc(p.known, func(v *version) bool { return v.is.ID == is.ID })]
}

// use puts a version in the place of the one that decided, which stays warm. One
// that was kept warm is told what it has missed.
func (p *pass) use(ctx context.Context, is rollout.Program) {
	one, next := p.one, p.version(is)
	if slices.Contains(one.previous, next) {
		next.setPriority(p.programs.priorityOf(next, one.state.Policy))
		_ = p.programs.follows(ctx, next, one.state.Policy)
	}
	one.version, one.previous, one.shadow = next, nil, trial.NewShadow()
	for _, former := range one.state.Previous {
		one.previous = append(one.previous, p.version(former))
	}
}

func (p *pass) startCanary(a rollout.StartCanary) *canary {
	object := p.one.state.Policy
	c := &canary{p.version(a.Program), trial.NewCanary(object.Spec.Canary, func() { signal(p.wake) })}
	c.program.Health().OnFailure = c.Fail
	if a.Resume {
		c.Counts.Resume(object.Status.Differences)
	}
	return c
}

func (p *pass) warn(ctx context.Context, a rollout.Warn) {
	args := []any{"policy", p.one.state.Policy.Name}
	if a.Module != "" {
		args = append(args, "module", a.Module)
	}
	if a.Reason != "" {
		args = append(args, "reason", a.Reason)
	}
	p.Log.WarnContext(ctx, a.Text, append(args, "err", a.Message)...)
}
