package console

import (
	"context"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/store"
)

// Objects is what the API serves, as it is stored.
type Objects interface {
	Get(store.Key) (store.Object, bool)
	List(resource, namespace string, opts store.ListOptions) (store.List, error)
	Watch(resource, namespace string, from int64) (*store.Watch, error)
}

// following keeps what views show of each object of some resources, as long as
// somebody looks: what has changed is taken in when the next frame is made.
type following[T any] struct {
	objects   Objects
	resources []string
	// row is what is shown of an object.
	row func(resource string, o store.Object) T

	mu      sync.Mutex
	lookers int
	watches map[string]*store.Watch
	rows    map[store.Key]T
	// version counts the changes to rows.
	version int64
}

// look keeps it until the returned function is called.
func (f *following[T]) look() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookers++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.lookers--; f.lookers == 0 {
			f.watches, f.rows = nil, nil
		}
	}
}

// each calls show with each object's row at this moment, if one of them has changed
// since the version that the caller has seen, and returns the version that it shows.
func (f *following[T]) each(ctx context.Context, seen int64, show func(store.Key, T)) (version int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, resource := range f.resources {
		if err := f.catchUp(ctx, resource); err != nil {
			return seen, err
		}
	}
	if f.version != seen {
		for key, row := range f.rows {
			show(key, row)
		}
	}
	return f.version, nil
}

// past is a tick that has come already.
var past = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// catchUp takes in what has changed of a resource. A watch that fell behind begins
// anew.
func (f *following[T]) catchUp(ctx context.Context, resource string) error {
	for {
		watch := f.watches[resource]
		if watch == nil {
			return f.list(resource)
		}
		events, err := watch.NextBefore(ctx, past)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return f.list(resource)
		}
		if len(events) == 0 {
			return nil
		}
		f.version++
		for i := range events {
			if events[i].Type == store.Deleted {
				delete(f.rows, events[i].Key)
			} else {
				f.rows[events[i].Key] = f.row(resource, events[i].Object)
			}
		}
	}
}

func (f *following[T]) list(resource string) error {
	if f.rows == nil {
		f.rows, f.watches = map[store.Key]T{}, map[string]*store.Watch{}
	}
	all, err := f.objects.List(resource, "", store.ListOptions{})
	if err != nil {
		return err
	}
	watch, err := f.objects.Watch(resource, "", all.Revision)
	if err != nil {
		return err
	}
	for key := range f.rows {
		if key.Resource == resource {
			delete(f.rows, key)
		}
	}
	for _, o := range all.Items {
		f.rows[store.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}] = f.row(resource, o)
	}
	f.watches[resource] = watch
	f.version++
	return nil
}
