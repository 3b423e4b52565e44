package policy

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/schema"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// Limits that a Policy may not exceed, and what holds where it says nothing.
const (
	defaultMemory = 64 << 20
	maxMemory     = 1 << 30
)

// factory makes programs of objects and modules.
type factory struct {
	*Config
	modules    *module.Store
	provenance trial.Provenance
	guestLogs  sandbox.GuestLogs
	// versions counts what was loaded.
	versions atomic.Int64
	// starting says that no set was made yet.
	starting func() bool
	// changed is told when a policy is quarantined and when it is let out.
	changed func()
}

// load makes a Policy's program of a module, and opens it once to see that it
// does. A guest that decides about pods takes in the present state too, lest a
// cycle has to wait for that. kind is what it must be, empty for any.
func (f *factory) load(ctx context.Context, object *v1alpha1.Policy, name, kind string) (*version, error) {
	m, err := f.modules.Load(ctx, name, limitsOf(object))
	if err != nil {
		return nil, err
	}
	one, err := f.open(ctx, object, m, kind)
	if err != nil {
		m.Close()
		return nil, err
	}
	one.is = rollout.Program{
		ID: f.versions.Add(1), Key: rollout.Key(object, name), Kind: one.program.Kind(), Revision: rollout.Revision(object, m.Digest()),
	}
	f.provenance.Keep(one.program, object)
	return one, nil
}

// open makes a program of a module and tries it.
func (f *factory) open(ctx context.Context, object *v1alpha1.Policy, m *engine.Module, kind string) (*version, error) {
	p, err := f.program(object, m, f.guestLogs.Of(object.Name), f.Reasons)
	if err != nil {
		return nil, err
	}
	if err := ofKind(p, kind); err != nil {
		return nil, err
	}
	one := &version{program: p, main: sandbox.New(p)}
	switch {
	case p.Kind() == abi.KindGate:
		if one.gate, err = sandbox.NewGate(one.main, rawConfig(object)); err != nil {
			return nil, err
		}
	case p.Kind() == abi.KindController:
		if one.controller, err = sandbox.NewController(one.main, object.Spec.ServiceAccount); err != nil {
			return nil, err
		}
	case p.Cacheable():
		one.verifier = sandbox.New(p)
	}
	one.setPriority(f.priorityOf(one, object))
	i, err := p.Open(ctx, one.main.Priority())
	if err != nil {
		return nil, err
	}
	i.Close()
	if err := f.follows(ctx, one, object); err != nil {
		one.closeAll()
		return nil, fmt.Errorf("it fails on the present state of the cluster: %w", err)
	}
	return one, nil
}

// ofKind refuses a program of another kind than its Policy is of, empty for any.
func ofKind(p *sandbox.Program, kind string) error {
	if kind == "" || p.Kind() == kind {
		return nil
	}
	return fmt.Errorf("%s in the module is a %s, and the policy a %s: give it a Policy of its own, or delete this one first", p.Entry(), p.Kind(), kind)
}

func limitsOf(p *v1alpha1.Policy) vet.Limits {
	limits := vet.DefaultLimits()
	limits.MemoryBytes = defaultMemory
	if p.Spec.Limits != nil && p.Spec.Limits.MemoryBytes > 0 {
		limits.MemoryBytes = min(p.Spec.Limits.MemoryBytes, maxMemory)
	}
	return limits
}

func (f *factory) program(object *v1alpha1.Policy, m *engine.Module, words *sandbox.GuestLog, reasons *framework.Reasons) (*sandbox.Program, error) {
	manifest, err := abi.ReadManifest(m.Manifest())
	if err != nil {
		return nil, err
	}
	name := object.Spec.Entry
	if name == "" {
		name = object.Name
		if len(manifest.Policies) == 1 {
			name = manifest.Policies[0].Name
		}
	}
	entry := manifest.Find(name)
	if entry == nil {
		return nil, fmt.Errorf("the module has no policy %q: it has %s", name, entryNames(manifest))
	}
	if err := schema.Check(entry.Config, rawConfig(object), "spec.config"); err != nil {
		return nil, fmt.Errorf("the config is not what the policy's schema wants: %w", err)
	}
	spec := sandbox.Spec{Name: object.Name, Module: m, Entry: entry, Counters: manifest.Counters, Config: rawConfig(object)}
	if object.Spec.Limits != nil {
		spec.Limits = *object.Spec.Limits
	}
	return sandbox.NewProgram(spec, reasons, f.healthOf(object), words, f.Log)
}

func entryNames(m *abi.Manifest) string {
	var all []string
	for i := range m.Policies {
		all = append(all, m.Policies[i].Name)
	}
	return strings.Join(all, ", ")
}

func rawConfig(p *v1alpha1.Policy) []byte {
	if p.Spec.Config == nil {
		return nil
	}
	return p.Spec.Config.Raw
}

// healthOf is a new program's, on trial if its Policy was quarantined when the
// host ended.
func (f *factory) healthOf(p *v1alpha1.Policy) *sandbox.Health {
	h := sandbox.NewHealth(f.changed)
	if f.starting() && p.Status.Phase == v1alpha1.PhaseQuarantined {
		return h.OnTrial()
	}
	return h
}
