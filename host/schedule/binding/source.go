package binding

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/store"
)

// Source follows the resources that scheduling reads. A watch that has fallen
// too far behind is made good by a new list: what has gone in between is told
// as deleted.
type Source struct {
	store *store.Store
	told  chan batch
	once  sync.Once
	// waiting counts the resources whose first list is not told yet.
	waiting int
}

// batch is what was listed or watched of one resource.
type batch struct {
	events []schedule.Event
	listed bool
	err    error
}

// NewSource returns a source over a store.
func NewSource(s *store.Store) *Source {
	return &Source{store: s, told: make(chan batch, 16), waiting: len(schedule.Resources)}
}

// Next implements schedule.Source. All calls must be given one context: the
// watches end with it.
func (s *Source) Next(ctx context.Context) ([]schedule.Event, bool, error) {
	s.once.Do(func() {
		for _, resource := range schedule.Resources {
			go s.follow(ctx, resource)
		}
	})
	select {
	case t := <-s.told:
		if t.listed {
			s.waiting--
		}
		return t.events, s.waiting <= 0, t.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// follow tells of one resource until ctx ends or the store fails.
func (s *Source) follow(ctx context.Context, resource string) {
	f := follower{source: s, resource: resource, known: map[store.Key]snapshot.Object{}}
	first := true
	for {
		from, err := f.list(ctx, first)
		first = false
		if err == nil {
			err = f.watch(ctx, from)
		}
		if errors.Is(err, store.ErrCompacted) {
			continue
		}
		s.tell(ctx, batch{err: fmt.Errorf("follow %s: %w", resource, err)})
		return
	}
}

func (s *Source) tell(ctx context.Context, t batch) {
	select {
	case s.told <- t:
	case <-ctx.Done():
	}
}

// follower follows one resource and knows what it has told of.
type follower struct {
	source   *Source
	resource string
	known    map[store.Key]snapshot.Object
}

// list tells of all objects, and of those that have gone since they were told of.
func (f *follower) list(ctx context.Context, first bool) (int64, error) {
	list, err := f.source.store.List(f.resource, "", store.ListOptions{})
	if err != nil {
		return 0, err
	}
	gone := f.known
	f.known = make(map[store.Key]snapshot.Object, len(list.Items))
	events := make([]schedule.Event, 0, len(list.Items))
	for _, item := range list.Items {
		key := f.key(item)
		f.known[key] = item
		if was, ok := gone[key]; ok && was.GetUID() == item.GetUID() {
			delete(gone, key)
		}
		events = append(events, schedule.Event{Resource: f.resource, Object: item})
	}
	deleted := make([]schedule.Event, 0, len(gone)+len(events))
	for _, was := range gone {
		deleted = append(deleted, schedule.Event{Resource: f.resource, Deleted: true, Object: was})
	}
	f.source.tell(ctx, batch{events: append(deleted, events...), listed: first})
	return list.Revision, nil
}

func (f *follower) key(o snapshot.Object) store.Key {
	return store.Key{Resource: f.resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (f *follower) watch(ctx context.Context, from int64) error {
	w, err := f.source.store.Watch(f.resource, "", from)
	if err != nil {
		return err
	}
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return err
		}
		events := make([]schedule.Event, 0, len(changes))
		for i := range changes {
			change := &changes[i]
			if change.Type == store.Deleted {
				delete(f.known, change.Key)
			} else {
				f.known[change.Key] = change.Object
			}
			events = append(events, schedule.Event{Resource: f.resource, Deleted: change.Type == store.Deleted, Object: change.Object})
		}
		f.source.tell(ctx, batch{events: events})
	}
}
