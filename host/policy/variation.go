package policy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// Variant is the live set as it would be with variations, opened for the caller
// alone.
type Variant struct {
	Set *framework.LiveSet
	// Live is the set as it is, opened in the same way.
	Live *framework.LiveSet
	// Kinds are those of the variations.
	Kinds []string
	// Profiles are those that name one of the variations.
	Profiles map[string]bool
	// Apart opens Set once more, to be asked about other nodes.
	Apart   func() (*framework.LiveSet, error)
	release []func()
}

// Release gives back what the sets hold.
func (v *Variant) Release() {
	for _, release := range v.release {
		release()
	}
}

// Vary opens the live set with variations in it, and without. Nothing of it
// goes live.
//
// # Errors
//
// module.ErrRefused with the reason, if a module is at fault.
func (l *Loader) Vary(ctx context.Context, variations []trial.Variation) (_ *Variant, err error) {
	set := l.Current()
	policies, profiles := maps.Clone(set.policies), slices.Clone(set.profiles)
	v := &Variant{Profiles: map[string]bool{}}
	defer func() {
		if err != nil {
			v.Release()
		}
	}()
	for i := range variations {
		one, err := l.programs.vary(ctx, policies[variations[i].Name], &variations[i])
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", variations[i].Name, err)
		}
		v.release = append(v.release, one.program.Release)
		v.Kinds = append(v.Kinds, one.program.Kind())
		policies[one.state.Policy.Name] = one
		if err := variations[i].Join(profiles, one.program.Kind()); err != nil {
			return nil, err
		}
		for _, p := range profiles {
			if slices.Contains(p.Names(), one.state.Policy.Name) {
				v.Profiles[p.Name] = true
			}
		}
	}
	f, g := l.programs.newReopener(ctx), l.programs.newReopener(ctx)
	v.release = append(v.release, f.release, g.release)
	v.Live = set.with(set.policies, set.profiles).assemble(g.open).Scheduling
	v.Set = set.with(policies, profiles).assemble(f.open).Scheduling
	v.Apart = func() (*framework.LiveSet, error) {
		apart := l.programs.newReopener(ctx)
		v.release = append(v.release, apart.release)
		return set.with(policies, profiles).assemble(apart.open).Scheduling, apart.err
	}
	return v, errors.Join(f.err, g.err)
}

// vary makes the program of one variation.
func (f *factory) vary(ctx context.Context, was *live, v *trial.Variation) (*live, error) {
	var object *v1alpha1.Policy
	if was != nil {
		object = was.state.Policy
	}
	object = v.Apply(object)
	wasm := v.Wasm
	if len(wasm) == 0 {
		name := v.Module
		if name == "" {
			name = object.Spec.Module
		}
		var err error
		if _, wasm, err = f.modules.Bytes(ctx, name); err != nil {
			return nil, fmt.Errorf("%w: %w", module.ErrRefused, err)
		}
	} else if err := f.modules.Trusts(sha256.Sum256(wasm), v.Signatures); err != nil {
		return nil, fmt.Errorf("%w: %w", module.ErrRefused, err)
	}
	p, err := f.aside(ctx, object, wasm)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", module.ErrRefused, err)
	}
	if was != nil && was.version != nil {
		err = ofKind(p, was.program.Kind())
	}
	if err != nil {
		p.Release()
		return nil, fmt.Errorf("%w: %w", module.ErrRefused, err)
	}
	i, err := p.Open(ctx, engine.PrioritySpare)
	if err != nil {
		p.Release()
		return nil, fmt.Errorf("%w: %w", module.ErrRefused, err)
	}
	i.Close()
	return &live{state: rollout.State{Policy: object}, version: &version{program: p}}, nil
}
