package store

import (
	"context"
	"sync/atomic"
)

// Watch is a place in a resource's history. It costs no goroutine and no
// buffer, needs no closing, and belongs to one goroutine at a time.
type Watch struct {
	store     *Store
	resource  *resource
	namespace string
	seen      atomic.Int64
}

// Watch follows the resource, in one namespace or in all (""), from the event
// after revision from on: the revision of a List, say.
//
// # Errors
//
// ErrCompacted if some events after from are gone, ErrFuture if from has not
// come yet, ErrClosed.
func (s *Store) Watch(resource, namespace string, from int64) (*Watch, error) {
	if s.closed() {
		return nil, &Error{Key: Key{Resource: resource}, Kind: ErrClosed}
	}
	newest := s.Revision()
	r := s.resource(resource)
	if from > max(newest, r.current.Load().rev) {
		return nil, &Error{Key: Key{Resource: resource}, Kind: ErrFuture}
	}
	if !r.log.covers(from) {
		return nil, &Error{Key: Key{Resource: resource}, Kind: ErrCompacted}
	}
	w := &Watch{store: s, resource: r, namespace: namespace}
	w.seen.Store(from)
	return w, nil
}

// Next waits until there are events and returns them, oldest first; those of
// one commit come together. The slice is the caller's.
//
// # Errors
//
// ErrCompacted when the watch fell behind the history, ErrClosed, or ctx's.
func (w *Watch) Next(ctx context.Context) ([]Event, error) {
	for {
		events, seen, wake, err := w.resource.log.read(w.seen.Load(), w.namespace)
		if err != nil {
			return nil, &Error{Key: Key{Resource: w.resource.name}, Kind: err}
		}
		w.seen.Store(seen)
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.store.stop:
			return nil, &Error{Key: Key{Resource: w.resource.name}, Kind: ErrClosed}
		}
	}
}

// Progress is the revision up to which the caller of Next has seen all that
// this watch shows: what a bookmark carries. Any goroutine may ask; one that
// asks beside Next may be told a revision whose events Next is just returning.
func (w *Watch) Progress() int64 {
	newest := w.store.Revision()
	seen := w.seen.Load()
	if w.resource.log.pending(seen) {
		return seen
	}
	return max(seen, newest)
}
