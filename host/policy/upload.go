package policy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
)

// ErrRefused wraps the reason for which a module may not come in.
var ErrRefused = errors.New("module refused")

// Examine checks who signed a module, and inspects it.
//
// # Errors
//
// ErrRefused with the reason, if the module is at fault.
func (l *Loader) Examine(ctx context.Context, wasm []byte, signatures []v1alpha1.Signature) (*v1alpha1.Module, error) {
	if err := l.trusts(sha256.Sum256(wasm), signatures); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	m, err := l.Inspect(ctx, wasm)
	if err != nil {
		return nil, err
	}
	m.Spec.Signatures = signatures
	return m, nil
}

// Inspect vets and compiles a module, and returns the Module object that
// stands for it. Nothing is stored.
func (l *Loader) Inspect(ctx context.Context, wasm []byte) (*v1alpha1.Module, error) {
	module, err := l.Engine.Load(ctx, wasm, vet.DefaultLimits())
	if err != nil {
		return nil, refusal(ctx, err)
	}
	manifest, err := abi.ReadManifest(module.Manifest())
	if err != nil {
		module.Close()
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	defer l.examined.keep(module, l.Now())
	digest := module.Digest()
	m := &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Digest: digest, Size: int64(len(wasm))}}
	m.Name = ModuleName(digest)
	m.Status = v1alpha1.ModuleStatus{Phase: "Accepted", Version: manifest.Version}
	for i := range manifest.Policies {
		p := &manifest.Policies[i]
		m.Status.Entries = append(m.Status.Entries, v1alpha1.ModuleEntry{Name: p.Name, Kind: p.Kind, Description: p.Description})
	}
	return m, nil
}

// refusal tells a module's fault from the host's own trouble.
func refusal(ctx context.Context, err error) error {
	var bad *vet.Refusal
	var failed *engine.Failure
	if ctx.Err() != nil || !errors.As(err, &bad) && !errors.As(err, &failed) && !errors.Is(err, engine.ErrCompile) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// Keep stores the module's bytes, so that policies can name it. If no Module
// object follows within the hour, they are collected.
func (l *Loader) Keep(ctx context.Context, m *v1alpha1.Module, wasm []byte) error {
	if err := l.arrivals.come(ctx, m.Spec.Digest, l.Now()); err != nil {
		return err
	}
	return l.Objects.PutBlob(ctx, m.Spec.Digest, wasm)
}
