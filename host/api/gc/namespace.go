package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	namespaceKind = kind.MustStored("namespaces")
	podKind       = kind.MustStored("pods")
)

// empty deletes what is in a namespace that is being deleted, pods first, and
// lets the namespace go when nothing is left.
func (c *Collector) empty(ctx context.Context, obj store.Object) error {
	ns := obj.(*corev1.Namespace)
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return nil
	}
	l := newLeft()
	c.clear(ctx, podKind, ns.Name, l)
	if l.empty() {
		for _, k := range c.kinds {
			if k.Namespaced {
				c.clear(ctx, k, ns.Name, l)
			}
		}
	}
	if l.empty() {
		return c.finalize(ctx, ns.Name)
	}
	if err := c.tell(ctx, ns.Name, l); err != nil {
		return err
	}
	if err := errors.Join(l.failed...); err != nil {
		return err
	}
	return errNotYet
}

// clear deletes all of a kind in a namespace, and notes what stays for now.
func (c *Collector) clear(ctx context.Context, k *kind.Kind, namespace string, l *left) {
	list, err := c.store.List(k.StoreName(), namespace, store.ListOptions{})
	if err != nil {
		l.failed = append(l.failed, err)
		return
	}
	policy := metav1.DeletePropagationBackground
	for _, obj := range list.Items {
		if obj.GetDeletionTimestamp() != nil {
			l.stays(k, obj)
			continue
		}
		uid := obj.GetUID()
		r := registry.On(k.StoreName(), namespace, obj.GetName())
		_, gone, err := c.registry.Delete(ctx, r, &metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid}})
		if ignoreGone(err) != nil {
			l.failed = append(l.failed, err)
		}
		if err == nil && !gone {
			l.stays(k, obj)
		}
	}
}

// finalize takes Kubernetes' finalizer off the namespace.
func (c *Collector) finalize(ctx context.Context, name string) error {
	r := registry.On("namespaces", "", name).Sub("finalize")
	_, err := c.registry.Modify(ctx, r, func(old store.Object) (store.Object, error) {
		next := old.(*corev1.Namespace).DeepCopy()
		next.Spec.Finalizers = slices.DeleteFunc(next.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		return next, nil
	})
	return ignoreGone(err)
}
