package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Change makes the new state of an object. old is shared: change returns a copy
// of its own. The new object is defaulted and of the stored version.
type Change func(old store.Object) (store.Object, error)

// Update replaces the object, or the part of it that the subresource is about.
// obj is taken over. A resourceVersion in it must be the newest one. created
// tells that there was none before, for kinds that a PUT may create.
func (reg *Registry) Update(ctx context.Context, r *Request, obj store.Object) (updated store.Object, created bool, err error) {
	if err := readyToUpdate(r, obj); err != nil {
		return nil, false, err
	}
	if err := checkSize(r, obj); err != nil {
		return nil, false, err
	}
	kind.Scheme.Default(obj)
	updated, err = reg.Modify(ctx, r, func(old store.Object) (store.Object, error) {
		if err := current(r, obj, old); err != nil {
			return nil, err
		}
		return obj.DeepCopyObject().(store.Object), nil
	})
	if apierrors.IsNotFound(err) && r.Subresource == "" && r.Kind.Strategy.AllowCreateOnUpdate() && obj.GetResourceVersion() == "" && obj.GetUID() == "" {
		updated, err = reg.createInstead(ctx, r, obj)
		return updated, err == nil, err
	}
	return updated, false, err
}

// createInstead makes an object that an update or an apply did not find.
func (reg *Registry) createInstead(ctx context.Context, r *Request, obj store.Object) (store.Object, error) {
	if r.MayCreate != nil {
		if err := r.MayCreate(); err != nil {
			return nil, err
		}
	}
	return reg.Create(ctx, r, obj)
}

func readyToUpdate(r *Request, obj store.Object) error {
	if obj.GetName() == "" {
		obj.SetName(r.Name)
	}
	if obj.GetName() != r.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), r.Name))
	}
	dropZeroVersion(obj)
	return matchNamespace(r, obj)
}

// dropZeroVersion has the resourceVersion 0 mean what none means, as Kubernetes does.
func dropZeroVersion(obj store.Object) {
	if obj.GetResourceVersion() == "0" {
		obj.SetResourceVersion("")
	}
}

// current refuses an update that was made from another state.
func current(r *Request, obj, old store.Object) error {
	gr := r.Kind.GroupResource()
	dropZeroVersion(obj)
	switch rv := obj.GetResourceVersion(); {
	case rv == "" && !r.Kind.Strategy.AllowUnconditionalUpdate():
		errs := field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), rv, "must be specified for an update")}
		return apierrors.NewInvalid(r.Kind.GVK().GroupKind(), r.Name, errs)
	case rv != "" && rv != old.GetResourceVersion():
		if _, err := strconv.ParseUint(rv, 10, 64); err != nil {
			return invalidVersion(r, rv)
		}
		return apierrors.NewConflict(gr, r.Name, errors.New(modified))
	}
	if uid := obj.GetUID(); uid != "" && uid != old.GetUID() {
		return apierrors.NewConflict(gr, r.Name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, old.GetUID())) //nolint:staticcheck // Kubernetes' words
	}
	return nil
}

func invalidVersion(r *Request, rv string) error {
	errs := field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), rv, "must be an unsigned integer")}
	return apierrors.NewInvalid(r.Kind.GVK().GroupKind(), r.Name, errs)
}

// Modify is the way of every write to an object that exists. It asks change
// again when another writer came between; change refuses if it cannot work
// from the newer state.
func (reg *Registry) Modify(ctx context.Context, r *Request, change Change) (store.Object, error) {
	strategy, err := r.updateStrategy()
	if err != nil {
		return nil, err
	}
	ctx = r.context(ctx)
	for {
		old, ok := reg.store.Get(r.key())
		if !ok {
			return nil, apierrors.NewNotFound(r.Kind.GroupResource(), r.Name)
		}
		obj, err := reg.modify(ctx, r, strategy, old, change)
		if !errors.Is(err, store.ErrConflict) {
			return obj, r.status(err)
		}
		if err := ctx.Err(); err != nil {
			return nil, r.status(err)
		}
	}
}

func (r *Request) updateStrategy() (rest.RESTUpdateStrategy, error) {
	if r.Subresource == "" || r.Subresource == "scale" {
		if r.Kind.Strategy == nil || !r.Kind.Can("update") {
			return nil, methodNotSupported(r, "update")
		}
		return r.Kind.Strategy, nil
	}
	sub, ok := r.Kind.Sub(r.Subresource)
	if !ok || sub.Strategy == nil {
		return nil, methodNotSupported(r, "update")
	}
	return sub.Strategy, nil
}

// modify is one attempt: ErrConflict means that another writer came between.
func (reg *Registry) modify(ctx context.Context, r *Request, strategy rest.RESTUpdateStrategy, old store.Object, change Change) (store.Object, error) {
	obj, err := change(old)
	if err != nil {
		return nil, err
	}
	if obj == old {
		return old, nil
	}
	if err := reg.trackUpdate(r, old, obj); err != nil {
		return nil, err
	}
	made, err := reg.prepareModify(ctx, r, strategy, old, obj)
	if err != nil {
		return nil, err
	}
	last, err := reg.commit(ctx, r, made)
	if err == nil && made.op.Kind == store.Delete {
		made.object.SetResourceVersion(last.GetResourceVersion())
		return made.object, nil
	}
	return last, err
}

// prepareModify admits, prepares and validates the new state of an object.
func (reg *Registry) prepareModify(ctx context.Context, r *Request, strategy rest.RESTUpdateStrategy, old, obj store.Object) (_ *prepared, err error) {
	a := r.attributes(Update, obj, old)
	defer a.rollbackOn(&err)
	if err := reg.admission.Admit(ctx, a); err != nil {
		return nil, r.refused(err)
	}
	if obj, err = prepareUpdate(ctx, r, strategy, obj, old); err != nil {
		return nil, err
	}
	a.Object = obj
	if err := reg.admission.Validate(ctx, a); err != nil {
		return nil, r.refused(err)
	}
	a.sendWarnings(r)
	settleManaged(old, obj)
	if r.DryRun {
		obj.SetResourceVersion(old.GetResourceVersion())
	}
	op := store.Op{Kind: store.Update, Key: r.key(), Object: obj, Expect: Revision(old)}
	if gone(obj) {
		op = store.Op{Kind: store.Delete, Key: op.Key, Expect: op.Expect}
	}
	return &prepared{op, obj, a}, nil
}

func prepareUpdate(ctx context.Context, r *Request, strategy rest.RESTUpdateStrategy, obj, old store.Object) (store.Object, error) {
	if obj.GetResourceVersion() == "" {
		obj.SetResourceVersion(old.GetResourceVersion())
	}
	before := old
	if r.Kind.Own() {
		// These strategies work on the objects themselves.
		before = old.DeepCopyObject().(store.Object)
	}
	hub, err := r.Kind.Internal(obj)
	if err != nil {
		return nil, err
	}
	oldHub, err := r.Kind.Internal(before)
	if err != nil {
		return nil, err
	}
	if err := rest.BeforeUpdate(strategy, ctx, hub, oldHub); err != nil {
		return nil, err
	}
	return r.Kind.External(hub)
}

// gone tells whether an update took away the last thing that held a deleted
// object.
func gone(obj store.Object) bool {
	if obj.GetDeletionTimestamp() == nil || held(obj) {
		return false
	}
	grace := obj.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// Revision is that at which an object is stored.
func Revision(obj store.Object) int64 {
	rev, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	return rev
}
