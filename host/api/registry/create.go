package registry

import (
	"context"
	"errors"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

// attempts bounds how often a write is tried again after it lost a race, with
// another writer or over a generated name.
const attempts = 8

// Create stores a new object, which it takes over and changes: obj is of the
// stored version, as the client sent it. The answer is what was stored.
func (reg *Registry) Create(ctx context.Context, r *Request, obj store.Object) (store.Object, error) {
	if r.Kind.Strategy == nil || !r.Kind.Can("create") {
		return nil, methodNotSupported(r, "create")
	}
	ctx = r.context(ctx)
	if err := reg.readyToCreate(ctx, r, obj); err != nil {
		return nil, err
	}
	generated := obj.GetName() == "" && obj.GetGenerateName() != ""
	fields := obj.GetManagedFields()
	for try := 1; ; try++ {
		made, err := reg.create(ctx, r, obj)
		if try == attempts || !raced(err, r.named(r.Namespace, obj.GetName()).key(), generated) {
			return made, r.named(r.Namespace, obj.GetName()).status(err)
		}
		// What was prepared once is prepared again, as a copy: replicas may
		// share parts of it by now.
		obj = obj.DeepCopyObject().(store.Object)
		obj.SetManagedFields(fields)
		if generated {
			obj.SetName("")
		}
	}
}

// raced tells whether trying again may help: the name was generated and taken,
// or another object of the transaction had changed, or was made by somebody
// else.
func raced(err error, k store.Key, generated bool) bool {
	if errors.Is(err, store.ErrExists) {
		var of *store.Error
		return generated || errors.As(err, &of) && of.Key != k
	}
	return errors.Is(err, store.ErrConflict)
}

// readyToCreate refuses what can be refused by looking at the metadata, and
// fills in what belongs to the system.
func (reg *Registry) readyToCreate(ctx context.Context, r *Request, obj store.Object) error {
	if err := matchNamespace(r, obj); err != nil {
		return err
	}
	dropZeroVersion(obj)
	if obj.GetResourceVersion() != "" {
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if r.Name != "" && obj.GetName() == "" {
		obj.SetName(r.Name)
	}
	if hook := reg.beforeCreate[r.Kind.StoreName()]; hook != nil {
		if err := hook(ctx, r, obj); err != nil {
			return r.status(err)
		}
	}
	if err := checkSize(r.named(r.Namespace, obj.GetName()), obj); err != nil {
		return err
	}
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
	rest.FillObjectMetaSystemFields(obj)
	kind.Scheme.Default(obj)
	return nil
}

func matchNamespace(r *Request, obj store.Object) error {
	switch {
	case !r.Kind.Namespaced:
		if obj.GetNamespace() != "" {
			obj.SetNamespace("")
		}
	case r.Namespace == "":
		return apierrors.NewBadRequest("an empty namespace may not be set when a resource name is provided")
	case obj.GetNamespace() == "":
		obj.SetNamespace(r.Namespace)
	case obj.GetNamespace() != r.Namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// create is one attempt.
func (reg *Registry) create(ctx context.Context, r *Request, obj store.Object) (store.Object, error) {
	if err := reg.namespaceOpen(r); err != nil {
		return nil, err
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(r.Kind.Strategy.GenerateName(obj.GetGenerateName()))
	}
	made, err := reg.prepareCreate(ctx, r, obj)
	if err != nil {
		return nil, err
	}
	return reg.commit(ctx, r, made)
}

// prepareCreate admits, prepares and validates a new object that has its name.
func (reg *Registry) prepareCreate(ctx context.Context, r *Request, obj store.Object) (_ *prepared, err error) {
	one := r.named(r.Namespace, obj.GetName())
	if err := reg.trackCreate(r, obj); err != nil {
		return nil, err
	}
	a := one.attributes(Create, obj, nil)
	defer a.rollbackOn(&err)
	if err := reg.admission.Admit(ctx, a); err != nil {
		return nil, one.refused(err)
	}
	if obj, err = prepare(ctx, r, obj); err != nil {
		return nil, err
	}
	a.Object = obj
	if err := reg.admission.Validate(ctx, a); err != nil {
		return nil, one.refused(err)
	}
	a.sendWarnings(r)
	op := store.Op{Kind: store.Create, Key: one.key(), Object: obj}
	if r.Kind.Namespaced {
		// It may have ended since namespaceOpen looked.
		op.Requires = namespaceKind.Key("", r.Namespace)
	}
	return &prepared{op, obj, a}, nil
}

// prepare runs the kind's own preparation and validation, or recalls what they
// made of a replica.
func prepare(ctx context.Context, r *Request, obj store.Object) (store.Object, error) {
	like := r.Kind.Replicas.Like(obj)
	defer like.Done()
	if made := r.Kind.Replicas.Recall(like, obj); made != nil {
		return made, nil
	}
	warned := warned{to: r}
	made, err := prepareAnew(warning.WithWarningRecorder(ctx, &warned), r, obj)
	if err == nil && !warned.any {
		r.Kind.Replicas.Keep(like, made)
	}
	return made, err
}

// warned passes warnings on and tells whether there were any.
type warned struct {
	to  warning.Recorder
	any bool
}

func (w *warned) AddWarning(agent, text string) {
	w.any = true
	w.to.AddWarning(agent, text)
}

func prepareAnew(ctx context.Context, r *Request, obj store.Object) (store.Object, error) {
	hub, err := r.Kind.Internal(obj)
	if err != nil {
		return nil, err
	}
	if err := rest.BeforeCreate(r.Kind.Strategy, ctx, hub); err != nil {
		return nil, err
	}
	made, err := r.Kind.External(hub)
	if err == nil && r.Kind.DefaultAgain {
		kind.Scheme.Default(made)
	}
	return made, err
}

func (a *Attributes) sendWarnings(r *Request) {
	for _, text := range a.warnings {
		r.AddWarning("", text)
	}
	a.warnings = nil
}
