package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/schema"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/store"
)

// Limits that a Policy may not exceed, and what holds where it says nothing.
const (
	defaultMemory = 64 << 20
	mostMemory    = 1 << 30
)

// errNoModule is cured by an upload.
var errNoModule = errors.New("it is not there: upload it first")

// uploaded says whether a module is there by now.
func (l *Loader) uploaded(name string) bool {
	digest, err := Digest(name)
	if err != nil {
		return false
	}
	_, ok := l.Objects.Get(store.Key{Resource: Modules, Name: ModuleName(digest)})
	return ok
}

// load makes a Policy's program of a module, and opens it once to see that it
// does. A guest that decides about pods takes in the present state too, lest a
// cycle has to wait for that.
func (l *Loader) load(ctx context.Context, object *v1alpha1.Policy, name string) (*live, error) {
	digest, err := Digest(name)
	if err != nil {
		return nil, err
	}
	wasm, err := l.Objects.Blob(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", name, errNoModule)
	}
	module, err := l.Engine.Load(ctx, wasm, limitsOf(object))
	if err != nil {
		return nil, err
	}
	one, err := l.open(ctx, object, module)
	if err != nil {
		module.Close()
		return nil, err
	}
	one.key, one.revision = keyOf(object, name), revisionOf(object, digest)
	l.recipes.keep(one.program, object)
	return one, nil
}

// open makes a program of a module and tries it.
func (l *Loader) open(ctx context.Context, object *v1alpha1.Policy, module *engine.Module) (*live, error) {
	p, err := l.program(object, module)
	if err != nil {
		return nil, err
	}
	one := &live{object: object, program: p, main: newSandbox(p)}
	switch {
	case p.entry.Kind == abi.KindGate:
		if one.gate, err = newGate(one.main, rawConfig(object)); err != nil {
			return nil, err
		}
	case p.entry.Kind == abi.KindController:
		one.controller = &Controller{asked{box: one.main}}
	case p.info.Remembered():
		one.twin = newSandbox(p)
	}
	i, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	i.Close()
	if err := l.follows(ctx, one); err != nil {
		one.closeAll()
		return nil, fmt.Errorf("it fails on the present state of the cluster: %w", err)
	}
	return one, nil
}

func limitsOf(p *v1alpha1.Policy) vet.Limits {
	limits := vet.DefaultLimits()
	limits.MemoryBytes = defaultMemory
	if p.Spec.Limits != nil && p.Spec.Limits.MemoryBytes > 0 {
		limits.MemoryBytes = min(p.Spec.Limits.MemoryBytes, mostMemory)
	}
	return limits
}

func (l *Loader) program(object *v1alpha1.Policy, module *engine.Module) (*program, error) {
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
	spec := programSpec{name: object.Name, module: module, entry: entry, counters: manifest.Counters, config: rawConfig(object)}
	if object.Spec.Limits != nil {
		spec.call = time.Duration(object.Spec.Limits.CallMilliseconds) * time.Millisecond
	}
	return newProgram(spec, l.Reasons, l.healthOf(object), l.speech.of(object.Name), l.Log)
}

func entryNames(m *abi.Manifest) string {
	var all []string
	for i := range m.Policies {
		all = append(all, m.Policies[i].Name)
	}
	return strings.Join(all, ", ")
}

// Digest turns a Module's name or digest into the digest.
func Digest(name string) (string, error) {
	digest := strings.Replace(name, "sha256-", "sha256:", 1)
	raw, ok := strings.CutPrefix(digest, "sha256:")
	if b, err := hex.DecodeString(raw); !ok || err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("module %q: want sha256-<64 hex digits>, as `kubectl get modules` shows it", name)
	}
	return digest, nil
}

// ModuleName is the name of the Module of that digest.
func ModuleName(digest string) string { return strings.Replace(digest, "sha256:", "sha256-", 1) }

func rawConfig(p *v1alpha1.Policy) []byte {
	if p.Spec.Config == nil {
		return nil
	}
	return p.Spec.Config.Raw
}
