// Package builtin makes the objects that a host starts with: a Module for each
// bundle that the binary carries, a Policy for each policy in it, and the
// profiles.
package builtin

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/policies-wasm/bundle"
)

//go:embed profiles.yaml
var profiles []byte

// Label marks the objects of this package. A Policy with it whose module has it
// too gets the module of a newer Berth; taking it off the Policy ends that.
const Label = "policy.berth.dev/builtin"

// ErrEmpty says that the binary was built without its policies.
var ErrEmpty = errors.New("this binary carries no policies: build it by `./task build`")

// Install writes what is missing, and brings the built-in policies to the
// modules that this binary carries: those that somebody pushed another module to,
// or took back from this binary's, stay as they are.
func Install(ctx context.Context, l *policy.Loader) error {
	bundles, err := bundle.Modules()
	if err != nil {
		return err
	}
	if len(bundles) == 0 {
		return ErrEmpty
	}
	for _, b := range bundles {
		m, err := l.Modules.Inspect(ctx, b.Wasm)
		if err != nil {
			return fmt.Errorf("built-in module %s: %w", b.Name, err)
		}
		l.Modules.Vouch(m.Spec.Digest)
		if err := keep(ctx, l, m, b.Wasm); err != nil {
			return fmt.Errorf("built-in module %s: %w", b.Name, err)
		}
		for _, e := range m.Status.Entries {
			if err := install(ctx, l, m, e); err != nil {
				return fmt.Errorf("built-in policy %s: %w", e.Name, err)
			}
		}
	}
	return installProfiles(ctx, l)
}

func meta(name string, l *policy.Loader) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, UID: uuid.NewUUID(), Generation: 1,
		CreationTimestamp: metav1.NewTime(l.Now()).Rfc3339Copy(),
		Labels:            map[string]string{Label: "true"},
	}
}

func keep(ctx context.Context, l *policy.Loader, m *v1alpha1.Module, wasm []byte) error {
	key := store.Key{Resource: v1alpha1.Modules, Name: m.Name}
	if _, ok := l.Objects.Get(key); ok {
		return mark(ctx, l, key)
	}
	if err := l.Modules.Keep(ctx, m, wasm); err != nil {
		return err
	}
	m.ObjectMeta = meta(m.Name, l)
	_, _, err := l.Objects.Commit(ctx, store.Op{Kind: store.Create, Key: key, Object: m})
	return err
}

// mark labels a module that somebody had uploaded before a binary carried it.
func mark(ctx context.Context, l *policy.Loader, key store.Key) error {
	_, err := l.Objects.Update(ctx, key, func(o store.Object) (store.Object, error) {
		m := o.(*v1alpha1.Module)
		if m.Labels[Label] != "" {
			return m, nil
		}
		m = m.DeepCopy()
		metav1.SetMetaDataLabel(&m.ObjectMeta, Label, "true")
		return m, nil
	})
	return err
}

// install makes the Policy of an entry, or moves it to this binary's module.
func install(ctx context.Context, l *policy.Loader, m *v1alpha1.Module, e v1alpha1.ModuleEntry) error {
	key := store.Key{Resource: v1alpha1.Policies, Name: objectName(e.Name)}
	if _, ok := l.Objects.Get(key); !ok {
		spec := v1alpha1.PolicySpec{Module: m.Name, Entry: e.Name, Mode: v1alpha1.Enforce, ServiceAccount: accounts[e.Name], Limits: limits(e.Name)}
		p := &v1alpha1.Policy{ObjectMeta: meta(key.Name, l), Spec: spec}
		_, _, err := l.Objects.Commit(ctx, store.Op{Kind: store.Create, Key: key, Object: p})
		return err
	}
	_, err := l.Objects.Update(ctx, key, func(o store.Object) (store.Object, error) {
		p := o.(*v1alpha1.Policy)
		account := p.Spec.ServiceAccount
		if account == nil { // written by a host that had none
			account = accounts[e.Name]
		}
		if !follows(l, p, m.Name) || p.Spec.Module == m.Name && account == p.Spec.ServiceAccount {
			return p, nil
		}
		p = p.DeepCopy()
		p.Spec.Module, p.Spec.ServiceAccount = m.Name, account
		if p.Spec.Limits == nil {
			p.Spec.Limits = limits(e.Name)
		}
		p.Generation++
		return p, nil
	})
	return err
}

// follows says whether a Policy goes to this binary's module: it does as long as
// it runs a built-in one, and nobody went back from this one.
func follows(l *policy.Loader, p *v1alpha1.Policy, module string) bool {
	if p.Labels[Label] == "" || rollout.TakenBack(&p.Status, module) {
		return false
	}
	digest, err := v1alpha1.Digest(p.Spec.Module)
	if err != nil {
		return false
	}
	runs, ok := l.Objects.Get(store.Key{Resource: v1alpha1.Modules, Name: v1alpha1.ModuleName(digest)})
	return ok && runs.(*v1alpha1.Module).Labels[Label] != ""
}

// controllerMemory is what a built-in controller may have: some 20 MiB for a parent
// with 10,000 children, and twice that where its memory doubles; the rest is for
// larger ones. It takes what it needs.
const controllerMemory = 256 << 20

// limits are those of a built-in policy, nil for what holds where nothing is said.
func limits(entry string) *v1alpha1.PolicyLimits {
	if accounts[entry] == nil {
		return nil
	}
	return &v1alpha1.PolicyLimits{MemoryBytes: controllerMemory}
}

// accounts are those that the built-in controllers act as, with the roles that
// Kubernetes gives kube-controller-manager's.
var accounts = map[string]*v1alpha1.ServiceAccountReference{
	"CronJob":                 account("cronjob-controller"),
	"DaemonSet":               account("daemon-set-controller"),
	"Deployment":              account("deployment-controller"),
	"Endpoints":               account("endpoint-controller"),
	"EndpointSlice":           account("endpointslice-controller"),
	"EndpointSliceMirror":     account("endpointslicemirroring-controller"),
	"HorizontalPodAutoscaler": account("horizontal-pod-autoscaler"),
	"Job":                     account("job-controller"),
	"PersistentVolume":        account("persistent-volume-binder"),
	"PersistentVolumeClaim":   account("persistent-volume-binder"),
	"PodDisruptionBudget":     account("disruption-controller"),
	"ReplicaSet":              account("replicaset-controller"),
	"ReplicationController":   account("replication-controller"),
	"StatefulSet":             account("statefulset-controller"),
}

func account(name string) *v1alpha1.ServiceAccountReference {
	return &v1alpha1.ServiceAccountReference{Namespace: metav1.NamespaceSystem, Name: name}
}

// objectName is the Policy's name of an entry.
func objectName(entry string) string { return entry }

func installProfiles(ctx context.Context, l *policy.Loader) error {
	for _, doc := range bytes.Split(profiles, []byte("\n---\n")) {
		p := new(v1alpha1.Profile)
		if err := yaml.UnmarshalStrict(doc, p); err != nil {
			return fmt.Errorf("built-in profiles: %w", err)
		}
		key := store.Key{Resource: v1alpha1.Profiles, Name: p.Name}
		if _, ok := l.Objects.Get(key); ok {
			continue
		}
		p.ObjectMeta = meta(p.Name, l)
		if _, _, err := l.Objects.Commit(ctx, store.Op{Kind: store.Create, Key: key, Object: p}); err != nil {
			return err
		}
	}
	return nil
}
