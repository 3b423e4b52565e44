// Package event tells users what happened to their objects: it writes Events
// in batches, counts repetitions instead of writing them again, and lets old
// ones expire. Telling never blocks whoever tells; what comes faster than it
// can be written is dropped and counted.
package event

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/berth-dev/berth/host/store"
)

// Life is how long an Event is kept after it happened last.
const Life = time.Hour

const (
	resource   = "events"
	batch      = 512
	queued     = 1 << 15
	remembered = 1 << 14
	// expireEvery is longer than it need be: all Events are looked at.
	expireEvery = 5 * time.Minute
	maxMessage  = 1024
)

// Objects is the part of the store that events need.
type Objects interface {
	Get(store.Key) (store.Object, bool)
	List(resource, namespace string, opts store.ListOptions) (store.List, error)
	Commit(ctx context.Context, ops ...store.Op) (int64, []store.Object, error)
}

// KindOf finds the version and kind of an object, which decoded objects do not
// carry.
type KindOf func(store.Object) (apiVersion, kind string)

// Writer writes what recorders tell.
type Writer struct {
	objects Objects
	kindOf  KindOf
	now     func() time.Time
	log     *slog.Logger
	queue   queue
	dropped atomic.Int64

	// known has the number in the Event's name by a hash of what it says: sixteen
	// thousand texts would be looked through by each collection of garbage.
	known map[uint64]int64
	seed  maphash.Seed
	last  int64 // newest number given out for a name
}

// occurrence is one thing that happened.
type occurrence struct {
	about                         store.Object
	source, kind, reason, message string
	at                            time.Time
}

// same finds the Event of which another one is a repetition.
type same struct {
	uid                           types.UID
	source, kind, reason, message string
}

// NewWriter makes a writer. Run writes.
func NewWriter(objects Objects, kindOf KindOf, now func() time.Time, log *slog.Logger) *Writer {
	return &Writer{objects: objects, kindOf: kindOf, now: now, log: log, queue: newQueue(), known: map[uint64]int64{}, seed: maphash.MakeSeed()}
}

// Dropped is how many events were not written.
func (w *Writer) Dropped() int64 { return w.dropped.Load() }

// For returns a recorder in the name of a component.
func (w *Writer) For(source string) *Recorder { return &Recorder{w, source} }

// Recorder tells in the name of one component.
type Recorder struct {
	writer *Writer
	source string
}

// Event tells that something happened to an object. Kind is Normal or Warning.
func (r *Recorder) Event(about store.Object, kind, reason, message string) {
	if len(message) > maxMessage {
		message = message[:maxMessage-3] + "..."
	}
	t := occurrence{about: about, source: r.source, kind: kind, reason: reason, message: message, at: r.writer.now()}
	if !r.writer.queue.put(t) {
		r.writer.dropped.Add(1)
	}
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	expire := time.NewTicker(expireEvery)
	defer expire.Stop()
	var all []occurrence
	for {
		select {
		case <-w.queue.more:
			all = w.queue.take(all)
			for part := range slices.Chunk(all, batch) {
				w.write(ctx, part)
			}
		case <-expire.C:
			w.expire(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *Writer) write(ctx context.Context, all []occurrence) {
	ops := make([]store.Op, 0, len(all))
	written := map[same]int{} // place in ops
	for i := range all {
		t := &all[i]
		s := same{t.about.GetUID(), t.source, t.kind, t.reason, t.message}
		if at, ok := written[s]; ok {
			repeat(ops[at].Object.(*v1.Event), t.at)
			continue
		}
		namespace := namespaceOf(t.about)
		if !w.open(namespace) {
			continue
		}
		written[s] = len(ops)
		ops = append(ops, w.op(s, t, namespace))
	}
	if _, _, err := w.objects.Commit(ctx, ops...); err == nil || ctx.Err() != nil {
		return
	}
	// One that was deleted meanwhile, or whose namespace goes, must not cost the
	// others.
	for _, op := range ops {
		if _, _, err := w.objects.Commit(ctx, op); err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			w.log.Warn("write event", "err", err)
			w.dropped.Add(1)
		}
	}
}

// namespaceOf is where an Event about an object lies.
func namespaceOf(about store.Object) string {
	if namespace := about.GetNamespace(); namespace != "" {
		return namespace
	}
	return metav1.NamespaceDefault
}

// open says whether Events may be written in a namespace: in one that goes they
// would have to be deleted at once, and in none they would stay unseen.
func (w *Writer) open(namespace string) bool {
	n, ok := w.objects.Get(namespaceKey(namespace))
	return ok && n.GetDeletionTimestamp() == nil
}

func namespaceKey(name string) store.Key { return store.Key{Resource: "namespaces", Name: name} }

// op counts a repetition, or makes a new Event.
func (w *Writer) op(s same, t *occurrence, namespace string) store.Op {
	hash := maphash.Comparable(w.seed, s)
	if number, ok := w.known[hash]; ok {
		key := store.Key{Resource: resource, Namespace: namespace, Name: nameOf(t.about, number)}
		if o, ok := w.objects.Get(key); ok {
			if old, ok := o.(*v1.Event); ok && s == saidBy(old) {
				next := old.DeepCopy()
				repeat(next, t.at)
				return store.Op{Kind: store.Update, Key: key, Object: next}
			}
		}
	}
	event := w.event(namespace, t)
	if len(w.known) >= remembered {
		clear(w.known)
	}
	w.known[hash] = w.last
	key := store.Key{Resource: resource, Namespace: namespace, Name: event.Name}
	return store.Op{Kind: store.Create, Key: key, Object: event, Requires: namespaceKey(namespace)}
}

// nameOf is the name of an Event about an object. Numbers grow, so that two of
// the same moment differ.
func nameOf(about store.Object, number int64) string {
	return fmt.Sprintf("%s.%x", about.GetName(), number)
}

// saidBy is what an Event says.
func saidBy(e *v1.Event) same {
	return same{e.InvolvedObject.UID, e.Source.Component, e.Type, e.Reason, e.Message}
}

func repeat(e *v1.Event, at time.Time) {
	e.Count++
	e.LastTimestamp = metav1.NewTime(at).Rfc3339Copy()
}

func (w *Writer) event(namespace string, t *occurrence) *v1.Event {
	at := metav1.NewTime(t.at).Rfc3339Copy()
	apiVersion, kind := w.kindOf(t.about)
	w.last = max(w.last+1, t.at.UnixNano())
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: nameOf(t.about, w.last),
			UID: uuid.NewUUID(), CreationTimestamp: at,
		},
		InvolvedObject: v1.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Namespace: t.about.GetNamespace(), Name: t.about.GetName(),
			UID: t.about.GetUID(), ResourceVersion: t.about.GetResourceVersion(),
		},
		Type: t.kind, Reason: t.reason, Message: t.message, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source: v1.EventSource{Component: t.source}, ReportingController: t.source,
	}
}

// expire removes Events whose life is over.
func (w *Writer) expire(ctx context.Context) {
	cutoff := w.now().Add(-Life)
	list, err := w.objects.List(resource, "", store.ListOptions{Match: func(o store.Object) bool {
		e, ok := o.(*v1.Event)
		return ok && happened(e).Before(cutoff)
	}})
	if err != nil {
		return
	}
	for _, o := range list.Items {
		key := store.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
		if _, _, err := w.objects.Commit(ctx, store.Op{Kind: store.Delete, Key: key}); err != nil && !errors.Is(err, store.ErrNotFound) {
			w.log.Warn("expire event", "err", err)
			return
		}
	}
}

// happened is when the event happened last.
func happened(e *v1.Event) time.Time {
	at := e.CreationTimestamp.Time
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if t.After(at) {
			at = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}
