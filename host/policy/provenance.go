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

// openDigest opens the very policies that made a decision, whatever is live now, and
// also if they are quarantined. What they do counts neither for nor against them.
func (l *Loader) openDigest(ctx context.Context, d *framework.Digest) (p *framework.Profile, release func(), err error) {
	var closers []func()
	release = func() {
		for _, c := range closers {
			c()
		}
	}
	set := l.Current()
	p = &framework.Profile{Name: d.Profile}
	for i := range d.Policies {
		one := &d.Policies[i]
		if one.Identity == ([32]byte{}) {
			p.Predicates = append(p.Predicates, framework.ProfilePredicate{Policy: absent(one.Name), Group: one.Group})
			continue
		}
		program := set.made(one.Name, one.Identity)
		if program == nil || !program.Hold() {
			if program, err = l.remake(ctx, one.Name, one.Identity); err != nil {
				release()
				return nil, nil, err
			}
		}
		box := sandbox.New(program).Aside(sandbox.NewHealth(func() {}))
		closers = append(closers, box.Close, program.Release)
		if one.Priority {
			p.Priorities = append(p.Priorities, framework.ProfilePriority{Policy: box, Weight: one.Weight})
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
func (l *Loader) remake(ctx context.Context, name string, identity [32]byte) (*sandbox.Program, error) {
	object, wasm, err := l.Provenance(ctx, identity)
	if err != nil && l.Archive != nil {
		object, wasm, err = l.Archive(identity)
	}
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", name, err)
	}
	own := *object // several policies may be alike but for their names
	own.Name = name
	return l.aside(ctx, &own, wasm)
}

// Provenance is what a program that decides, or did, was made of.
func (l *Loader) Provenance(ctx context.Context, identity [32]byte) (*v1alpha1.Policy, []byte, error) {
	object := l.provenance.Get(identity)
	if object == nil {
		return nil, nil, errors.New("what it was is forgotten")
	}
	digest, err := v1alpha1.Digest(object.Spec.Module)
	if err != nil {
		return nil, nil, err
	}
	wasm, err := l.Objects.Blob(ctx, digest)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("its module %s was collected", object.Spec.Module)
	}
	return object, wasm, err
}

// aside makes a program that never goes live.
func (l *Loader) aside(ctx context.Context, object *v1alpha1.Policy, wasm []byte) (*sandbox.Program, error) {
	m, err := l.Engine.Load(ctx, wasm, limitsOf(object))
	if err != nil {
		return nil, err
	}
	p, err := l.program(object, m)
	if err != nil {
		m.Close()
		return nil, err
	}
	p.Silence() // what it says is nobody's business
	return p, nil
}
