package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/store"
)

// reopen opens the programs of a set once more, in sandboxes of their own.
func (f *factory) reopen(ctx context.Context, s *Set) (*framework.LiveSet, func(), error) {
	r := f.newReopener(ctx)
	set := s.with(s.policies, s.profiles).assemble(r.open).Scheduling
	if r.err != nil {
		r.release()
		return nil, nil, r.err
	}
	return set, r.release, nil
}

// reopener opens programs in sandboxes that nobody else asks.
type reopener struct {
	borrow func(*sandbox.Program) (*sandbox.Program, error)
	opened map[*sandbox.Program]*sandbox.Sandbox
	err    error // of the programs that cannot be had any more
}

func (f *factory) newReopener(ctx context.Context) *reopener {
	return &reopener{
		borrow: func(p *sandbox.Program) (*sandbox.Program, error) { return f.borrow(ctx, p) },
		opened: map[*sandbox.Program]*sandbox.Sandbox{},
	}
}

func (r *reopener) open(v *version) (main, verifier *sandbox.Sandbox) {
	box := r.opened[v.program]
	if box != nil {
		return box, nil
	}
	p, err := r.borrow(v.program)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return sandbox.New(v.program), nil
	}
	box = sandbox.New(p).Aside(p.Health().Copy())
	r.opened[v.program] = box
	return box, nil
}

func (r *reopener) release() {
	for _, box := range r.opened {
		box.Close()
		box.Release()
	}
}

// borrow holds a program, or one that is made anew as it was made if that has
// left and is given back.
func (f *factory) borrow(ctx context.Context, p *sandbox.Program) (*sandbox.Program, error) {
	if p.Hold() {
		return p, nil
	}
	return f.remake(ctx, p.Name(), p.Identity())
}

// openDigest opens the very policies that made a decision, whatever is live now, and
// also if they are quarantined. What they do counts neither for nor against them.
func (f *factory) openDigest(ctx context.Context, set *Set, d *framework.Digest) (p *framework.Profile, release func(), err error) {
	var closers []func()
	release = func() {
		for _, c := range closers {
			c()
		}
	}
	p = &framework.Profile{Name: d.Profile}
	for i := range d.Policies {
		one := &d.Policies[i]
		if one.Identity == ([32]byte{}) {
			p.Predicates = append(p.Predicates, framework.ProfilePredicate{Policy: absent{one.Name, errLost}, Group: one.Group})
			continue
		}
		program := set.made(one.Name, one.Identity)
		if program == nil || !program.Hold() {
			if program, err = f.remake(ctx, one.Name, one.Identity); err != nil {
				release()
				return nil, nil, err
			}
		}
		box := sandbox.New(program).Aside(sandbox.NewHealth(func() {}))
		closers = append(closers, box.Close, program.Release)
		if one.Priority {
			p.Priorities = append(p.Priorities, framework.ProfilePriority{Policy: box, Weight: one.Weight, FailClosed: one.FailClosed})
			continue
		}
		p.Predicates = append(p.Predicates, framework.ProfilePredicate{Policy: box, Group: one.Group, FailOpen: one.FailOpen})
	}
	return p, release, nil
}

// made finds a policy's program that is live, on trial or kept warm.
func (s *Set) made(name string, identity [32]byte) *sandbox.Program {
	one := s.policies[name]
	if one == nil {
		return nil
	}
	var found *sandbox.Program
	one.each(func(v *version) {
		if v.program.Identity() == identity {
			found = v.program
		}
	})
	return found
}

// remake makes a program once more that has left.
func (f *factory) remake(ctx context.Context, name string, identity [32]byte) (*sandbox.Program, error) {
	object, wasm, err := f.origin(ctx, identity)
	if err != nil && f.Archive != nil {
		object, wasm, err = f.Archive(identity)
	}
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", name, err)
	}
	own := *object // several policies may be alike but for their names
	own.Name = name
	return f.aside(ctx, &own, wasm)
}

// aside makes a program that never goes live.
func (f *factory) aside(ctx context.Context, object *v1alpha1.Policy, wasm []byte) (*sandbox.Program, error) {
	m, err := f.Engine.Load(ctx, wasm, limitsOf(object))
	if err != nil {
		return nil, err
	}
	p, err := f.program(object, m, new(sandbox.GuestLog), f.Reasons.Aside()) // what it says is nobody's business
	if err != nil {
		m.Close()
		return nil, err
	}
	return p, nil
}

// origin is what a program that decides, or did, was made of.
func (f *factory) origin(ctx context.Context, identity [32]byte) (*v1alpha1.Policy, []byte, error) {
	object := f.provenance.Get(identity)
	if object == nil {
		return nil, nil, errors.New("what it was is forgotten")
	}
	digest, err := v1alpha1.Digest(object.Spec.Module)
	if err != nil {
		return nil, nil, err
	}
	wasm, err := f.Objects.Blob(ctx, digest)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("its module %s was collected", object.Spec.Module)
	}
	return object, wasm, err
}
