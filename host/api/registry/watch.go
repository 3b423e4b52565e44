package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// WatchOptions say what to follow and from where.
type WatchOptions struct {
	Selector
	// ResourceVersion is where to begin: after that revision. "" and "0" begin
	// with all that is there, as ADDED events.
	ResourceVersion string
	// InitialEvents asks for all that is there first, whatever the version, and
	// for a bookmark behind it.
	InitialEvents bool
}

// Watch follows the objects of a kind that a selector picks. It belongs to one
// goroutine, which stops it at the end.
type Watch struct {
	request *Request
	source  *store.Watch
	match   func(store.Object) bool
	initial *List
	marked  bool // the bookmark behind the initial events is still to come
}

// Event is one change as a client sees it.
type Event struct {
	Type   watch.EventType
	Object store.Object
	// InitialEnd marks the bookmark that ends the initial events.
	InitialEnd bool

	shared func(format string, encode func(store.Object) ([]byte, error)) ([]byte, error)
}

// Shared is the object encoded once for all watchers that speak the format.
func (e *Event) Shared(format string, encode func(store.Object) ([]byte, error)) ([]byte, error) {
	if e.shared == nil {
		return encode(e.Object)
	}
	return e.shared(format, encode)
}

// Watch begins to follow the kind. A revision that is gone or yet to come is an
// error of API kind, which belongs into the stream.
func (reg *Registry) Watch(ctx context.Context, r *Request, opts WatchOptions) (*Watch, error) {
	if r.Kind.Strategy == nil || !r.Kind.Can("watch") {
		return nil, methodNotSupported(r, "watch")
	}
	from, err := ParseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &Watch{request: r, match: opts.match(r.Kind), marked: opts.InitialEvents}
	if from > reg.store.Revision() {
		return nil, tooLargeVersion(from, reg.store.Revision())
	}
	if opts.InitialEvents || from == 0 {
		if w.initial, err = reg.List(ctx, r, ListOptions{Selector: opts.Selector}); err != nil {
			return nil, err
		}
		from = w.initial.Revision
	}
	w.source, err = reg.source(r, &opts, from)
	if errors.Is(err, store.ErrCompacted) {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, reg.store.Revision()))
	}
	if err != nil {
		return nil, r.status(err)
	}
	return w, nil
}

// source follows an index or one object where the selector allows it: an agent is
// woken by its own pods, and not by all.
func (reg *Registry) source(r *Request, opts *WatchOptions, from int64) (*store.Watch, error) {
	if node, ok := reg.nodeOf(r, &opts.Selector); ok && r.Namespace == "" {
		return reg.store.WatchIndexed(r.Kind.StoreName(), IndexNode, node, from)
	}
	if name, ok := opts.name(); ok && (r.Namespace != "" || !r.Kind.Namespaced) {
		return reg.store.WatchObject(store.Key{Resource: r.Kind.StoreName(), Namespace: r.Namespace, Name: name}, from)
	}
	return reg.store.Watch(r.Kind.StoreName(), r.Namespace, from)
}

// Stop ends the watch.
func (w *Watch) Stop() { w.source.Stop() }

// Next waits for events and returns them in order.
func (w *Watch) Next(ctx context.Context) ([]Event, error) { return w.NextBefore(ctx, nil) }

// NextBefore is Next that also returns when tick does, without events.
func (w *Watch) NextBefore(ctx context.Context, tick <-chan time.Time) ([]Event, error) {
	if events := w.begin(); len(events) > 0 {
		return events, nil
	}
	for {
		changes, err := w.source.NextBefore(ctx, tick)
		if errors.Is(err, store.ErrCompacted) {
			return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", w.source.Progress()))
		}
		if err != nil {
			return nil, err
		}
		if events := w.seen(changes); len(events) > 0 || len(changes) == 0 {
			return events, nil
		}
	}
}

// seen are the changes that this watcher sees.
func (w *Watch) seen(changes []store.Event) []Event {
	if len(changes) == 0 {
		return nil
	}
	events := make([]Event, 0, len(changes))
	for i := range changes {
		if e, ok := w.see(&changes[i]); ok {
			events = append(events, e)
		}
	}
	return events
}

// begin gives the initial events, once.
func (w *Watch) begin() []Event {
	list := w.initial
	w.initial = nil
	if list == nil {
		return nil
	}
	events := make([]Event, 0, len(list.Items)+1)
	for i, obj := range list.Items {
		events = append(events, Event{Type: watch.Added, Object: obj,
			shared: func(format string, encode func(store.Object) ([]byte, error)) ([]byte, error) {
				return list.Shared(i, format, encode)
			}})
	}
	if w.marked {
		w.marked = false
		end := w.bookmark(list.Revision)
		end.InitialEnd = true
		events = append(events, end)
	}
	return events
}

// Bookmark tells up to where the watch has seen everything.
func (w *Watch) Bookmark() Event { return w.bookmark(w.source.Progress()) }

func (w *Watch) bookmark(rev int64) Event {
	obj := w.request.Kind.New()
	obj.SetResourceVersion(strconv.FormatInt(rev, 10))
	return Event{Type: watch.Bookmark, Object: obj}
}

// see turns a change into what it is for this watcher: an object that begins
// to match is added, one that ceases to is deleted.
func (w *Watch) see(c *store.Event) (Event, bool) {
	is, was := true, c.Prev != nil
	if w.match != nil {
		is = c.Type != store.Deleted && w.match(c.Object)
		was = c.Prev != nil && w.match(c.Prev)
	} else if c.Type == store.Deleted {
		is = false
	}
	e := Event{Object: c.Object, shared: c.Shared}
	switch {
	case is && was:
		e.Type = watch.Modified
	case is:
		e.Type = watch.Added
	case was && c.Type == store.Deleted:
		e.Type = watch.Deleted
	case was:
		e.Type = watch.Deleted
		e.Object, e.shared = lastSeen(w.request.Kind, c), nil
	default:
		return Event{}, false
	}
	return e, true
}

// lastSeen is the state that the watcher knows, at the revision at which it
// ceased to match.
func lastSeen(k *kind.Kind, c *store.Event) store.Object {
	obj := k.Shallow(c.Prev)
	obj.SetResourceVersion(strconv.FormatInt(c.Revision, 10))
	return obj
}
