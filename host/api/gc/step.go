package gc

import (
	"context"
	"slices"
	"sync"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// step does what is to be done about an object now.
func (c *Collector) step(ctx context.Context, key store.Key) error {
	obj, ok := c.store.Get(key)
	if !ok {
		return nil
	}
	if key.Resource == namespaceKind.StoreName() && obj.GetDeletionTimestamp() != nil {
		if err := c.empty(ctx, obj); err != nil {
			return err
		}
	}
	dependents := sync.OnceValue(func() []store.Object { return c.dependents(obj) })
	v := Judge(obj, func(ref metav1.OwnerReference) Owner { return c.owner(ref, obj) }, dependents)
	r := registry.On(key.Resource, key.Namespace, key.Name)
	switch v.Action {
	case Remove:
		return c.remove(ctx, r, obj, v.Policy)
	case Disown:
		return ignoreGone(c.disown(ctx, r, v.Gone))
	case Release:
		return ignoreGone(c.release(ctx, r))
	case Unblock:
		return ignoreGone(c.unblock(ctx, r))
	case Orphan:
		return c.orphan(ctx, obj, dependents())
	case Spread:
		return c.spread(dependents())
	}
	return nil
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// remove deletes exactly the object that was judged.
func (c *Collector) remove(ctx context.Context, r *registry.Request, obj store.Object, policy metav1.DeletionPropagation) error {
	uid, rv := obj.GetUID(), obj.GetResourceVersion()
	_, _, err := c.registry.Delete(ctx, r, &metav1.DeleteOptions{
		PropagationPolicy: &policy,
		// The version makes sure that no owner was added since.
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv},
	})
	return ignoreGone(err)
}

// disown takes references out of an object.
func (c *Collector) disown(ctx context.Context, r *registry.Request, gone []types.UID) error {
	_, err := c.registry.Modify(ctx, r, func(old store.Object) (store.Object, error) {
		next := old.DeepCopyObject().(store.Object)
		next.SetOwnerReferences(slices.DeleteFunc(next.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return slices.Contains(gone, ref.UID)
		}))
		return next, nil
	})
	return err
}

// unblock has no owner wait for an object any more.
func (c *Collector) unblock(ctx context.Context, r *registry.Request) error {
	_, err := c.registry.Modify(ctx, r, func(old store.Object) (store.Object, error) {
		next := old.DeepCopyObject().(store.Object)
		refs := next.GetOwnerReferences()
		for i := range refs {
			refs[i].BlockOwnerDeletion = ptr.To(false)
		}
		next.SetOwnerReferences(refs)
		return next, nil
	})
	return err
}

// release takes the collector's own finalizers off.
func (c *Collector) release(ctx context.Context, r *registry.Request) error {
	_, err := c.registry.Modify(ctx, r, func(old store.Object) (store.Object, error) {
		next := old.DeepCopyObject().(store.Object)
		next.SetFinalizers(slices.DeleteFunc(next.GetFinalizers(), func(f string) bool {
			return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		}))
		return next, nil
	})
	return err
}

func (c *Collector) orphan(ctx context.Context, owner store.Object, dependents []store.Object) error {
	for _, d := range dependents {
		if r, ok := requestFor(d); ok {
			if err := ignoreGone(c.disown(ctx, r, []types.UID{owner.GetUID()})); err != nil {
				return err
			}
		}
	}
	return errNotYet
}

// spread has the dependents looked at, which the owner now waits for.
func (c *Collector) spread(dependents []store.Object) error {
	for _, d := range dependents {
		if k, ok := kind.Of(d); ok && d.GetDeletionTimestamp() == nil {
			c.queue.Add(k.Key(d.GetNamespace(), d.GetName()))
		}
	}
	return nil
}

func requestFor(obj store.Object) (*registry.Request, bool) {
	k, ok := kind.Of(obj)
	if !ok {
		return nil, false
	}
	return registry.On(k.StoreName(), obj.GetNamespace(), obj.GetName()), true
}

// owner tells how it stands with an owner of obj.
func (c *Collector) owner(ref metav1.OwnerReference, obj store.Object) Owner {
	if k, ok := ownerKind(ref); !ok || k.Namespaced && obj.GetNamespace() == "" {
		return Foreign
	}
	owner, ok := c.find(ref, obj.GetNamespace())
	switch {
	case !ok:
		return Absent
	case !waits(owner):
		return Solid
	case waits(obj) && blocks(obj, owner.GetUID()) && c.holdsUp(owner, obj, map[types.UID]bool{}):
		return Circular
	}
	return Waiting
}

// holdsUp says whether a waiting object is what obj waits for, or is among what
// that waits for in its turn. seen are those that were asked already.
func (c *Collector) holdsUp(one, obj store.Object, seen map[types.UID]bool) bool {
	if one.GetUID() == obj.GetUID() {
		return true
	}
	seen[one.GetUID()] = true
	for _, ref := range one.GetOwnerReferences() {
		if seen[ref.UID] || !blocks(one, ref.UID) {
			continue
		}
		if owner, ok := c.find(ref, one.GetNamespace()); ok && waits(owner) && c.holdsUp(owner, obj, seen) {
			return true
		}
	}
	return false
}

func ownerKind(ref metav1.OwnerReference) (*kind.Kind, bool) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, false
	}
	return kind.ByName(gv.WithKind(ref.Kind).GroupKind())
}

// find gets the owner, if it is still the one that the reference means.
func (c *Collector) find(ref metav1.OwnerReference, namespace string) (store.Object, bool) {
	k, ok := ownerKind(ref)
	if !ok {
		return nil, false
	}
	obj, ok := c.store.Get(k.Key(namespace, ref.Name))
	if !ok || obj.GetUID() != ref.UID {
		return nil, false
	}
	return obj, true
}
