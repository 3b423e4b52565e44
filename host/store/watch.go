package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Watch is a place in a resource's history. It costs no goroutine and no
// buffer, and belongs to one goroutine at a time.
type Watch struct {
	store    *Store
	resource *resource
	topic    *topic // nil: all of the resource
	stopped  atomic.Bool
	seen     atomic.Int64
}

// Watch follows the resource, in one namespace or in all (""), from the event
// after revision from on: the revision of a List, say. Stop it when it is no longer
// needed.
//
// # Errors
//
// ErrCompacted if some events after from are gone, ErrFuture if from has not
// come yet, ErrClosed.
func (s *Store) Watch(resource, namespace string, from int64) (*Watch, error) {
	if namespace != "" {
		return s.watchTopic(resource, namespaceTopic(namespace), from)
	}
	r, err := s.watchable(resource, from)
	if err != nil {
		return nil, &Error{Key: Key{Resource: resource}, Kind: err}
	}
	if !r.log.covers(from) {
		return nil, &Error{Key: Key{Resource: resource}, Kind: ErrCompacted}
	}
	w := &Watch{store: s, resource: r}
	w.seen.Store(from)
	return w, nil
}

// WatchObject is Watch for one object, in no namespace where that is "".
func (s *Store) WatchObject(k Key, from int64) (*Watch, error) {
	return s.watchTopic(k.Resource, objectTopic(k), from)
}

// WatchIndexed follows the objects for which the index names value, before or
// after the change: an object that leaves the value is shown once more, leaving.
// Other events do not wake the watch, so it suits many watchers of which each
// is interested in little.
//
// # Errors
//
// Those of Watch, and one for an index that is not there.
func (s *Store) WatchIndexed(resource, index, value string, from int64) (*Watch, error) {
	i := s.resource(resource).indexCalled(index)
	if i < 0 {
		return nil, fmt.Errorf("watch %s: there is no index %q", resource, index)
	}
	return s.watchTopic(resource, topicKey{i, value, ""}, from)
}

func (s *Store) watchTopic(resource string, key topicKey, from int64) (*Watch, error) {
	r, err := s.watchable(resource, from)
	if err != nil {
		return nil, &Error{Key: Key{Resource: resource}, Kind: err}
	}
	t := r.subscribe(key, from)
	if t == nil {
		return nil, &Error{Key: Key{Resource: resource}, Kind: ErrCompacted}
	}
	w := &Watch{store: s, resource: r, topic: t}
	w.seen.Store(from)
	return w, nil
}

func (s *Store) watchable(name string, from int64) (*resource, error) {
	if s.closed() {
		return nil, ErrClosed
	}
	newest := s.Revision()
	r := s.resource(name)
	if from > max(newest, r.rev.Load()) {
		return nil, ErrFuture
	}
	return r, nil
}

// Stop gives up the watch: those of a part of a resource are remembered until then.
func (w *Watch) Stop() {
	if w.topic != nil && !w.stopped.Swap(true) {
		w.resource.unsubscribe(w.topic)
	}
}

// Next waits until there are events and returns them, oldest first. The slice is
// shared with other watchers: read it.
//
// # Errors
//
// ErrCompacted when the watch fell behind the history, ErrClosed, or ctx's.
func (w *Watch) Next(ctx context.Context) ([]Event, error) { return w.NextBefore(ctx, nil) }

// NextBefore is Next that also returns when tick does, without events.
func (w *Watch) NextBefore(ctx context.Context, tick <-chan time.Time) ([]Event, error) {
	for {
		events, seen, woken, err := w.read()
		if err != nil {
			return nil, &Error{Key: Key{Resource: w.resource.name}, Kind: err}
		}
		w.seen.Store(seen)
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-woken:
			woken.next()
		case <-tick:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.store.stop:
			return nil, &Error{Key: Key{Resource: w.resource.name}, Kind: ErrClosed}
		}
	}
}

func (w *Watch) read() ([]Event, int64, wake, error) {
	if w.topic != nil {
		return w.resource.log.readTopic(w.topic, w.seen.Load())
	}
	return w.resource.log.read(w.seen.Load())
}

// Progress is the revision up to which the caller of Next has seen all that
// this watch shows: what a bookmark carries. Any goroutine may ask; one that
// asks beside Next may be told a revision whose events Next is just returning.
func (w *Watch) Progress() int64 {
	newest := w.store.Revision()
	seen := w.seen.Load()
	pending := w.resource.log.pending
	if w.topic != nil {
		pending = func(rev int64) bool { return w.resource.log.pendingTopic(w.topic, rev) }
	}
	if pending(seen) {
		return seen
	}
	return max(seen, newest)
}
