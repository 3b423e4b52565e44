package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/schema"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/store"
)

// Limits that a Policy may not exceed, and what holds where it says nothing.
const (
	defaultMemory = 64 << 20
	maxMemory     = 1 << 30
)

// errNoModule is cured by an upload.
var errNoModule = errors.New("it is not there: upload it first")

// waiting is an error that a change of the Module may cure; version is that of
// the Module as it was found, empty if there was none.
type waiting struct {
	error
	version string
}

func (w waiting) Unwrap() error { return w.error }

// Vouch lets a module in that comes with the host itself, whoever signed it.
func (l *Loader) Vouch(digest string) { l.own.Store(digest, true) }

// trusts says whether the bytes of that sum may run here.
func (l *Loader) trusts(sum [sha256.Size]byte, signatures []v1alpha1.Signature) error {
	if _, own := l.own.Load("sha256:" + hex.EncodeToString(sum[:])); own {
		return nil
	}
	return l.Trusted.Verify(sum, signatures)
}

// stored returns a module's bytes, if they may run here. Keys may have been
// trusted, or withdrawn, since it was uploaded.
func (l *Loader) stored(ctx context.Context, name string) (digest string, wasm []byte, err error) {
	if digest, err = v1alpha1.Digest(name); err != nil {
		return "", nil, err
	}
	var signatures []v1alpha1.Signature
	version := ""
	if m := l.moduleOf(digest); m != nil {
		signatures, version = m.Spec.Signatures, m.ResourceVersion
	}
	if wasm, err = l.Objects.Blob(ctx, digest); errors.Is(err, store.ErrNotFound) {
		return "", nil, waiting{fmt.Errorf("module %s: %w", name, errNoModule), version}
	}
	if err != nil {
		return "", nil, fmt.Errorf("module %s: %w", name, err)
	}
	if err := l.trusts(sha256.Sum256(wasm), signatures); err != nil {
		return "", nil, waiting{fmt.Errorf("module %s: %w", name, err), version}
	}
	return digest, wasm, nil
}

// moduleOf is the Module of a digest; nil if there is none.
func (l *Loader) moduleOf(digest string) *v1alpha1.Module {
	o, _ := l.Objects.Get(store.Key{Resource: Modules, Name: v1alpha1.ModuleName(digest)})
	m, _ := o.(*v1alpha1.Module)
	return m
}

// module makes a module ready, if it may run here.
func (l *Loader) module(ctx context.Context, name string, limits vet.Limits) (*engine.Module, error) {
	if m := l.loaded(name, limits); m != nil {
		return m, nil
	}
	_, wasm, err := l.stored(ctx, name)
	if err != nil {
		return nil, err
	}
	return l.Engine.Load(ctx, wasm, limits)
}

// loaded is a module that is in memory already, so that its bytes need not be
// read; nil if it is not. Whether it may run here is asked as of any other.
func (l *Loader) loaded(name string, limits vet.Limits) *engine.Module {
	digest, err := v1alpha1.Digest(name)
	if err != nil {
		return nil
	}
	m := l.moduleOf(digest)
	sum := sumOf(digest)
	if m == nil || l.trusts(sum, m.Spec.Signatures) != nil {
		return nil
	}
	return l.Engine.Loaded(sum, limits)
}

// sumOf is the sum in a digest that Digest has checked.
func sumOf(digest string) (sum [sha256.Size]byte) {
	_, _ = hex.Decode(sum[:], []byte(digest[len("sha256:"):]))
	return sum
}

// load makes a Policy's program of a module, and opens it once to see that it
// does. A guest that decides about pods takes in the present state too, lest a
// cycle has to wait for that. kind is what it must be, empty for any.
func (l *Loader) load(ctx context.Context, object *v1alpha1.Policy, name, kind string) (*version, error) {
	module, err := l.module(ctx, name, limitsOf(object))
	if err != nil {
		return nil, err
	}
	one, err := l.open(ctx, object, module, kind)
	if err != nil {
		module.Close()
		return nil, err
	}
	one.is = rollout.Program{
		ID: l.versions.Add(1), Key: rollout.Key(object, name), Kind: one.program.Kind(), Revision: rollout.Revision(object, module.Digest()),
	}
	l.provenance.keep(one.program, object)
	return one, nil
}

// open makes a program of a module and tries it.
func (l *Loader) open(ctx context.Context, object *v1alpha1.Policy, module *engine.Module, kind string) (*version, error) {
	p, err := l.program(object, module)
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
		one.controller = sandbox.NewController(one.main)
	case p.Cacheable():
		one.verifier = sandbox.New(p)
	}
	one.setPriority(l.priorityOf(one, object))
	i, err := p.Open(ctx, one.main.Priority())
	if err != nil {
		return nil, err
	}
	i.Close()
	if err := l.follows(ctx, one, object); err != nil {
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

func (l *Loader) program(object *v1alpha1.Policy, module *engine.Module) (*sandbox.Program, error) {
	manifest, err := abi.ReadManifest(module.Manifest())
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
	spec := sandbox.Spec{Name: object.Name, Module: module, Entry: entry, Counters: manifest.Counters, Config: rawConfig(object)}
	if object.Spec.Limits != nil {
		spec.Limits = *object.Spec.Limits
	}
	return sandbox.NewProgram(spec, l.Reasons, l.healthOf(object), l.guestLogs.Of(object.Name), l.Log)
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
