package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
)

// Delete removes the object, or marks it as deleted when finalizers hold it or
// when it gets time to end. gone tells which; obj is its last or newest state.
func (reg *Registry) Delete(ctx context.Context, r *Request, opts *metav1.DeleteOptions) (obj store.Object, gone bool, err error) {
	if r.Kind.Strategy == nil || !r.Kind.Can("delete") {
		return nil, false, methodNotSupported(r, "delete")
	}
	return reg.remove(r.context(ctx), r, opts, nil)
}

// remove deletes, with change applied first to what stays behind for a while.
func (reg *Registry) remove(ctx context.Context, r *Request, opts *metav1.DeleteOptions, also func(a *Attributes, last store.Object) error) (store.Object, bool, error) {
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	if errs := validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return nil, false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	for {
		old, ok := reg.store.Get(r.key())
		if !ok {
			return nil, false, apierrors.NewNotFound(r.Kind.GroupResource(), r.Name)
		}
		obj, gone, err := reg.removeOnce(ctx, r, old, opts.DeepCopy(), also)
		if !errors.Is(err, store.ErrConflict) {
			return obj, gone, r.status(err)
		}
		if err := ctx.Err(); err != nil {
			return nil, false, r.status(err)
		}
	}
}

func (reg *Registry) removeOnce(ctx context.Context, r *Request, old store.Object, opts *metav1.DeleteOptions, also func(a *Attributes, last store.Object) error) (store.Object, bool, error) {
	made, err := reg.prepareRemove(ctx, r, old, opts, also)
	if err != nil {
		return nil, false, err
	}
	last, err := reg.commit(ctx, r, made)
	return last, err == nil && made.op.Kind == store.Delete, err
}

// prepareRemove admits the deletion and says what becomes of the object.
func (reg *Registry) prepareRemove(ctx context.Context, r *Request, old store.Object, opts *metav1.DeleteOptions, also func(a *Attributes, last store.Object) error) (_ *prepared, err error) {
	if err := preconditions(r, opts.Preconditions, old); err != nil {
		return nil, err
	}
	a := r.attributes(Delete, nil, old)
	a.Subresource = ""
	defer a.rollbackOn(&err)
	for _, ask := range []func(context.Context, *Attributes) error{reg.admission.Admit, reg.admission.Validate} {
		if err := ask(ctx, a); err != nil {
			return nil, r.refused(err)
		}
	}
	a.sendWarnings(r)
	last := old.DeepCopyObject().(store.Object)
	if also != nil {
		if err := also(a, last); err != nil {
			return nil, err
		}
	}
	last, stays, err := mark(ctx, r, last, opts)
	if err != nil {
		return nil, err
	}
	op := store.Op{Kind: store.Delete, Key: r.key(), Expect: Revision(old)}
	if stays {
		op.Kind, op.Object = store.Update, last
	}
	return &prepared{op, last, a}, nil
}

func preconditions(r *Request, p *metav1.Preconditions, obj store.Object) error {
	if p == nil {
		return nil
	}
	gr := r.Kind.GroupResource()
	if p.UID != nil && *p.UID != obj.GetUID() {
		return apierrors.NewConflict(gr, r.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, obj.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		return apierrors.NewConflict(gr, r.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, obj.GetResourceVersion()))
	}
	return nil
}

// mark makes obj what it is after the deletion was asked for. stays is false
// when nothing holds it.
func mark(ctx context.Context, r *Request, obj store.Object, opts *metav1.DeleteOptions) (marked store.Object, stays bool, err error) {
	graceful, pending := false, false
	if _, ok := r.Kind.Strategy.(rest.RESTGracefulDeleteStrategy); ok {
		hub, err := r.Kind.Internal(obj)
		if err != nil {
			return nil, false, err
		}
		if graceful, pending, err = rest.BeforeDelete(r.Kind.Strategy, ctx, hub, opts); err != nil {
			return nil, false, err
		}
		if obj, err = r.Kind.External(hub); err != nil {
			return nil, false, err
		}
	}
	changed := propagate(r, obj, opts)
	switch {
	case pending && !changed:
		return obj, true, nil
	case held(obj) || changed && len(obj.GetFinalizers()) > 0:
		markDeleted(obj)
		return obj, true, nil
	case graceful && ptr.Deref(opts.GracePeriodSeconds, 0) > 0, pending:
		return obj, true, nil
	}
	if obj.GetDeletionTimestamp() == nil {
		markDeleted(obj)
	}
	return obj, false, nil
}

// held tells whether finalizers keep the object.
func held(obj store.Object) bool {
	if len(obj.GetFinalizers()) > 0 {
		return true
	}
	ns, ok := obj.(*corev1.Namespace)
	return ok && len(ns.Spec.Finalizers) > 0
}

func markDeleted(obj store.Object) {
	if ns, ok := obj.(*corev1.Namespace); ok {
		ns.Status.Phase = corev1.NamespaceTerminating
	}
	if obj.GetDeletionTimestamp() != nil {
		return
	}
	now := metav1.Now()
	obj.SetDeletionTimestamp(&now)
	if obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	if obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(ptr.To(int64(0)))
	}
}

// propagate sets the finalizers that the garbage collector works by, and tells
// whether that changed any.
func propagate(r *Request, obj store.Object, opts *metav1.DeleteOptions) bool {
	was := obj.GetFinalizers()
	orphan, foreground := wanted(r, obj, opts)
	now := slices.DeleteFunc(slices.Clone(was), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		now = append(now, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		now = append(now, metav1.FinalizerDeleteDependents)
	}
	if slices.Equal(was, now) {
		return false
	}
	obj.SetFinalizers(now)
	return true
}

func wanted(r *Request, obj store.Object, opts *metav1.DeleteOptions) (orphan, foreground bool) {
	if p := opts.PropagationPolicy; p != nil {
		return *p == metav1.DeletePropagationOrphan, *p == metav1.DeletePropagationForeground
	}
	if o := opts.OrphanDependents; o != nil { //nolint:staticcheck // old clients still send it
		return *o, false
	}
	has := func(f string) bool { return slices.Contains(obj.GetFinalizers(), f) }
	if has(metav1.FinalizerOrphanDependents) || has(metav1.FinalizerDeleteDependents) {
		return has(metav1.FinalizerOrphanDependents), has(metav1.FinalizerDeleteDependents)
	}
	return r.Kind.OrphanByDefault, false
}

// DeleteCollection deletes all that a list with these options shows, and
// returns what it showed.
func (reg *Registry) DeleteCollection(ctx context.Context, r *Request, opts *metav1.DeleteOptions, list ListOptions) (*List, error) {
	if !r.Kind.Can("deletecollection") {
		return nil, methodNotSupported(r, "deletecollection")
	}
	found, err := reg.List(ctx, r, list)
	if err != nil {
		return nil, err
	}
	for _, obj := range found.Items {
		one := r.named(obj.GetNamespace(), obj.GetName())
		o := &metav1.DeleteOptions{}
		if opts != nil {
			o = opts.DeepCopy()
		}
		if _, _, err := reg.Delete(ctx, one, o); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return found, nil
}

// podKind is looked up once.
var podKind = kind.MustStored("pods")
