package containerd

import (
	"context"
	"sync"
	"time"

	apievents "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/typeurl/v2"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// topics that are listened to.
var topics = []string{`topic=="/tasks/start"`, `topic=="/tasks/exit"`, `topic=="/tasks/oom"`}

// settleWithin bounds the work on one exit.
const settleWithin = time.Minute

// watch follows containerd's events until ctx ends: ends are settled, then told.
func (r *Runtime) watch(ctx context.Context) {
	r.done.Go(func() {
		for ctx.Err() == nil {
			envelopes, errs := r.client.Subscribe(r.with(ctx), topics...)
			r.follow(ctx, envelopes, errs)
			if ctx.Err() != nil {
				return
			}
			// containerd was restarted: what ended meanwhile is found by List.
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			if _, err := r.List(ctx); err != nil {
				r.log.Debug("look for what ended", "err", err)
			}
		}
	})
}

func (r *Runtime) follow(ctx context.Context, envelopes <-chan *events.Envelope, errs <-chan error) {
	for {
		select {
		case e := <-envelopes:
			if e != nil && e.Namespace == Namespace {
				r.heard(ctx, e)
			}
		case err := <-errs:
			if ctx.Err() == nil {
				r.log.Debug("events ended", "err", err)
			}
			return
		}
	}
}

func (r *Runtime) heard(ctx context.Context, e *events.Envelope) {
	v, err := typeurl.UnmarshalAny(e.Event)
	if err != nil {
		return
	}
	switch v := v.(type) {
	case *apievents.TaskStart:
		r.tell(ctx, v.ContainerID, runtime.ContainerStarted)
	case *apievents.TaskOOM:
		r.tell(ctx, v.ContainerID, runtime.ContainerOOM)
	case *apievents.TaskExit:
		if v.ID != v.ContainerID {
			return // an exec
		}
		r.done.Go(func() {
			settling, cancel := context.WithTimeout(r.with(ctx), settleWithin)
			defer cancel()
			if err := r.settle(settling, v.ContainerID); err != nil && ctx.Err() == nil {
				r.log.Warn("settle an exit", "container", v.ContainerID, "err", err)
			}
			r.tell(settling, v.ContainerID, runtime.ContainerExited)
		})
	}
}

// tell passes an event on to whoever listens.
func (r *Runtime) tell(ctx context.Context, id string, kind runtime.EventKind) {
	rec, _, err := r.load(r.with(ctx), id)
	if err != nil {
		return // removed already: nobody will ask
	}
	if rec.isSandbox() {
		if kind != runtime.ContainerExited {
			return
		}
		kind = runtime.SandboxExited
	}
	r.watchers.send(runtime.Event{Kind: kind, ID: id, Pod: rec.Pod})
}

// Events implements runtime.Observer.
func (r *Runtime) Events(ctx context.Context) (<-chan runtime.Event, error) {
	return r.watchers.add(ctx), nil
}

// watchers are who listens to events.
type watchers struct {
	mu  sync.Mutex
	all map[chan runtime.Event]struct{}
}

// backlog is how many events a slow reader may be behind; later ones are lost.
const backlog = 256

func (w *watchers) add(ctx context.Context) <-chan runtime.Event {
	ch := make(chan runtime.Event, backlog)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[chan runtime.Event]struct{}{}
	}
	w.all[ch] = struct{}{}
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, ch)
		close(ch)
	})
	return ch
}

func (w *watchers) send(e runtime.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.all {
		select {
		case ch <- e:
		default:
		}
	}
}
