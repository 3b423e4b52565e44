package view

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
)

// NodeIndex is the name of the store's index of pods by the node that they are
// bound to. Who opens the store under this view gives it one.
const NodeIndex = "spec.nodeName"

// Of is the view of a store that has the index NodeIndex.
func Of(s *store.Store) Live { return Live{s} }

// Live is a store as this room sees it.
type Live struct{ store *store.Store }

var _ Store = Live{}

// Get implements Objects.
func (l Live) Get(_ context.Context, key store.Key) (store.Object, error) {
	if obj, ok := l.store.Get(key); ok {
		return obj, nil
	}
	return nil, &store.Error{Key: key, Kind: store.ErrNotFound}
}

// List implements Objects.
func (l Live) List(_ context.Context, resource, namespace string) ([]store.Object, error) {
	list, err := l.store.List(resource, namespace, store.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	return list.Items, nil
}

// ListAt is List with the revision that it shows, from which Watch goes on.
func (l Live) ListAt(resource, namespace string) ([]store.Object, int64, error) {
	list, err := l.store.List(resource, namespace, store.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list %s: %w", resource, err)
	}
	return list.Items, list.Revision, nil
}

// Watch follows a resource from behind a revision.
func (l Live) Watch(resource, namespace string, from int64) (*store.Watch, error) {
	return l.store.Watch(resource, namespace, from)
}

// Version implements Objects.
func (l Live) Version(resource string) int64 { return l.store.Changed(resource) }

// Commit implements Store.
func (l Live) Commit(ctx context.Context, ops ...store.Op) (int64, error) {
	revision, _, err := l.store.Commit(ctx, ops...)
	return revision, err
}

// PodsOn gives the pods that are bound to the node.
func (l Live) PodsOn(_ context.Context, node string) ([]*corev1.Pod, error) {
	found := l.store.Indexed(Pods, NodeIndex, node)
	pods := make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("a pod is stored as %T", obj)
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

// Await returns when an object of one of the resources has changed since the
// versions that seen tells, or with the context's error.
func (l Live) Await(ctx context.Context, resource string, since int64) error {
	watch, err := l.store.Watch(resource, "", since)
	if err != nil {
		return nil // too long ago, or no longer open: look again
	}
	_, err = watch.Next(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}
