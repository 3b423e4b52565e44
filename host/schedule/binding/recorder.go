package binding

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/store"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxNotes bounds the Events that wait to be written.
const maxNotes = 1 << 15

// notesAtOnce bounds those of one commit.
const notesAtOnce = 512

// component is who Events say that they are from.
const component = "berth-scheduler"

// Recorder writes Events into the store, many in one commit. What is told
// again of the same pod counts up the Event that is there. It never blocks who
// tells: beyond a bound Events are dropped, and their number is logged.
type Recorder struct {
	store  *store.Store
	now    func() time.Time
	logger *slog.Logger
	more   chan struct{}

	mu      sync.Mutex
	notes   []note
	dropped int
}

// note is an Event to be.
type note struct {
	pod                   *v1.Pod
	kind, reason, message string
	at                    time.Time
}

// NewRecorder returns a recorder whose Run writes. now is time.Now where nil.
func NewRecorder(s *store.Store, now func() time.Time, logger *slog.Logger) *Recorder {
	if now == nil {
		now = time.Now
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Recorder{store: s, now: now, logger: logger, more: make(chan struct{}, 1)}
}

// Event implements schedule.Recorder.
func (r *Recorder) Event(pod *v1.Pod, kind, reason, message string) {
	r.mu.Lock()
	if len(r.notes) < maxNotes {
		r.notes = append(r.notes, note{pod, kind, reason, message, r.now()})
	} else {
		r.dropped++
	}
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case <-r.more:
		case <-ctx.Done():
			return nil
		}
		for {
			notes, dropped := r.take()
			if dropped > 0 {
				r.logger.Warn("events were dropped", "count", dropped)
			}
			if len(notes) == 0 {
				break
			}
			if err := r.write(ctx, notes); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				r.logger.Warn("write events", "count", len(notes), "err", err)
			}
		}
	}
}

func (r *Recorder) take() (notes []note, dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.notes), notesAtOnce)
	notes = r.notes[:n:n]
	r.notes = r.notes[n:]
	if len(r.notes) == 0 {
		r.notes = nil
	}
	dropped, r.dropped = r.dropped, 0
	return notes, dropped
}

// write commits the Events of some notes; the ones that others wrote meanwhile
// are looked at again.
func (r *Recorder) write(ctx context.Context, notes []note) error {
	var err error
	for range tries {
		ops := r.ops(notes)
		if _, _, err = r.store.Commit(ctx, ops...); err == nil || errors.Is(err, store.ErrClosed) {
			return err
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return err
}

func (r *Recorder) ops(notes []note) []store.Op {
	byKey := map[store.Key]int{}
	ops := make([]store.Op, 0, len(notes))
	for i := range notes {
		n := &notes[i]
		key := store.Key{Resource: "events", Namespace: n.pod.Namespace, Name: n.name()}
		if k, ok := byKey[key]; ok {
			ops[k].Object = n.again(ops[k].Object.(*v1.Event))
			continue
		}
		byKey[key] = len(ops)
		if was, ok := get[*v1.Event](r.store, key); ok {
			ops = append(ops, store.Op{Kind: store.Update, Key: key, Object: n.again(was), Expect: revision(was)})
			continue
		}
		ops = append(ops, store.Op{Kind: store.Create, Key: key, Object: n.event()})
	}
	return ops
}

// name is the same for what is the same: who tells it again counts it up.
func (n *note) name() string {
	h := fnv.New64a()
	for _, s := range []string{string(n.pod.UID), n.kind, n.reason, n.message} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	// A name has 253 characters at most, of which 17 are the hash.
	name := n.pod.Name
	if len(name) > 236 {
		name = name[:236]
	}
	return fmt.Sprintf("%s.%016x", name, h.Sum64())
}

func (n *note) event() *v1.Event {
	at := metav1.NewTime(n.at)
	name := n.name()
	return &v1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: n.pod.Namespace, Name: name, UID: newUID(), CreationTimestamp: at},
		InvolvedObject: v1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: n.pod.Namespace, Name: n.pod.Name,
			UID: n.pod.UID, ResourceVersion: n.pod.ResourceVersion,
		},
		Type: n.kind, Reason: n.reason, Message: n.message,
		Source: v1.EventSource{Component: component}, ReportingController: component, ReportingInstance: component, Action: action(n.reason),
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}

// action is what was being done when it happened.
func action(reason string) string {
	switch reason {
	case "Scheduled":
		return "Binding"
	case "Preempted":
		return "Preempting"
	}
	return "Scheduling"
}

func (n *note) again(was *v1.Event) *v1.Event {
	next := *was
	next.Count++
	next.LastTimestamp = metav1.NewTime(n.at)
	return &next
}
