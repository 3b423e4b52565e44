package policy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
	"k8s.io/apimachinery/pkg/runtime"
)

// Variation is a Policy as it might be.
type Variation struct {
	// Name is that of the Policy, which need not be there yet.
	Name string `json:"name"`
	// Object is the Policy as it would be; without it, it is as it is.
	Object *v1alpha1.Policy `json:"-"`
	// Wasm is its module; without it Module names one that was uploaded, and
	// without that it stays as it is.
	Wasm []byte `json:"wasm,omitempty"`
	// Signatures are of Wasm, for hosts that trust some keys only.
	Signatures []v1alpha1.Signature `json:"signatures,omitempty"`
	Module     string               `json:"module,omitempty"`
	// Entry, Config and Mode replace those of the Policy where they are given.
	Entry  string          `json:"entry,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`
	Mode   v1alpha1.Mode   `json:"mode,omitempty"`
	// Profile is what a Policy that no profile names would join, with Weight.
	Profile string `json:"profile,omitempty"`
	Weight  int32  `json:"weight,omitempty"`
}

// Varied is the live set as it would be with variations, opened for the caller
// alone.
type Varied struct {
	Set *framework.LiveSet
	// Live is the set as it is, opened in the same way.
	Live *framework.LiveSet
	// Kinds are those of the variations.
	Kinds []string
	// Profiles are those that name one of the variations.
	Profiles map[string]bool
	release  []func()
}

// Release gives back what the sets hold.
func (v *Varied) Release() {
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
func (l *Loader) Vary(ctx context.Context, variations []Variation) (_ *Varied, err error) {
	set := l.Current()
	policies, profiles := maps.Clone(set.policies), slices.Clone(set.profiles)
	v := &Varied{Profiles: map[string]bool{}}
	defer func() {
		if err != nil {
			v.Release()
		}
	}()
	for i := range variations {
		one, err := l.vary(ctx, policies[variations[i].Name], &variations[i])
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", variations[i].Name, err)
		}
		v.release = append(v.release, one.program.Release)
		v.Kinds = append(v.Kinds, one.program.Kind())
		policies[one.state.Policy.Name] = one
		if err := join(profiles, &variations[i], one.program.Kind()); err != nil {
			return nil, err
		}
		for _, p := range profiles {
			if slices.Contains(names(p), one.state.Policy.Name) {
				v.Profiles[p.Name] = true
			}
		}
	}
	f, g := l.newReopener(ctx), l.newReopener(ctx)
	v.release = append(v.release, f.release, g.release)
	v.Live = assemble(set.Number, set.policies, set.profiles, g.open).Scheduling
	v.Set = assemble(set.Number, policies, profiles, f.open).Scheduling
	return v, errors.Join(f.err, g.err)
}

// vary makes the program of one variation.
func (l *Loader) vary(ctx context.Context, was *live, v *Variation) (*live, error) {
	object := &v1alpha1.Policy{}
	switch {
	case v.Object != nil:
		object = v.Object.DeepCopy()
	case was != nil:
		object = was.state.Policy.DeepCopy()
	}
	object.Name, object.Spec.Canary = v.Name, nil
	if v.Mode != "" {
		object.Spec.Mode = v.Mode
	}
	if v.Entry != "" {
		object.Spec.Entry = v.Entry
	}
	if v.Config != nil {
		object.Spec.Config = &runtime.RawExtension{Raw: v.Config}
	}
	wasm := v.Wasm
	if len(wasm) == 0 {
		name := v.Module
		if name == "" {
			name = object.Spec.Module
		}
		var err error
		if _, wasm, err = l.Modules.Bytes(ctx, name); err != nil {
			return nil, fmt.Errorf("%w: %w", module.ErrRefused, err)
		}
	} else if err := l.Modules.Trusts(sha256.Sum256(wasm), v.Signatures); err != nil {
		return nil, fmt.Errorf("%w: %w", module.ErrRefused, err)
	}
	p, err := l.aside(ctx, object, wasm)
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

// join puts a policy that no profile names into the one that it would join.
func join(profiles []*v1alpha1.Profile, v *Variation, kind string) error {
	if v.Profile == "" || kind != abi.KindPredicate && kind != abi.KindPriority {
		return nil
	}
	for i, p := range profiles {
		if p.Name != v.Profile {
			continue
		}
		if slices.Contains(names(p), v.Name) {
			return nil
		}
		p = p.DeepCopy()
		if kind == abi.KindPredicate {
			p.Spec.Predicates = append(p.Spec.Predicates, v1alpha1.ProfilePredicate{Name: v.Name})
		} else {
			p.Spec.Priorities = append(p.Spec.Priorities, v1alpha1.ProfilePriority{Name: v.Name, Weight: max(v.Weight, 1)})
		}
		profiles[i] = p
		return nil
	}
	return fmt.Errorf("%w: there is no profile %s", module.ErrRefused, v.Profile)
}
