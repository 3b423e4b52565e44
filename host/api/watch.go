package api

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/wire"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// bookmarkEvery is Kubernetes' own period.
	bookmarkEvery = time.Minute
	// A watch without a timeout ends after half an hour to an hour, so that
	// clients spread over servers again.
	watchAtLeast = 30 * time.Minute
)

// writeTime is how long a watcher may take to accept what is sent before it is
// given up, together with what it holds in memory.
var writeTime = 30 * time.Second

// watching is one watch in progress.
type watching struct {
	call      *call
	stream    wire.Stream
	source    *registry.Watch
	bookmarks bool
	out       *bufio.Writer
	flush     *http.ResponseController
	patience  *time.Timer
}

func (k *call) watch() error {
	t, err := k.typed(true)
	if err != nil {
		return err
	}
	r, err := k.request()
	if err != nil {
		return err
	}
	if name := k.param("name"); name != "" {
		r.Name = ""
	}
	opts, err := k.query.list(r)
	if err != nil {
		return err
	}
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	version := opts.ResourceVersion
	if opts.SendInitialEvents != nil && !*opts.SendInitialEvents && (version == "" || version == "0") {
		version = ""
	}
	ctx, cancel := context.WithTimeout(k.r.Context(), watchTime(opts.TimeoutSeconds))
	defer cancel()
	source, err := k.server.Registry.Watch(ctx, r, registry.WatchOptions{Selector: opts.Selector, ResourceVersion: version, InitialEvents: initial})
	if apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) {
		return err
	}
	w := &watching{call: k, stream: wire.Stream{Typed: t}, source: source, bookmarks: opts.AllowWatchBookmarks || initial,
		out: bufio.NewWriterSize(k.w, 4<<10), flush: http.NewResponseController(k.w), patience: k.giveUpWriting(writeTime)}
	w.patience.Stop()
	defer w.patience.Stop()
	k.header(t.Format.StreamType())
	k.w.WriteHeader(http.StatusOK)
	if err == nil {
		defer source.Stop()
		_ = w.send()
		err = w.run(ctx)
	}
	w.end(ctx, err)
	return nil
}

func watchTime(asked *int64) time.Duration {
	if asked != nil && *asked > 0 && *asked < int64((24*time.Hour)/time.Second) {
		return time.Duration(*asked) * time.Second
	}
	return watchAtLeast + rand.N(watchAtLeast)
}

// run sends events until the time is over or something fails.
func (w *watching) run(ctx context.Context) error {
	for {
		events, err := w.next(ctx)
		if err != nil {
			return err
		}
		for i := range events {
			if err := w.event(&events[i]); err != nil {
				return err
			}
		}
		if err := w.send(); err != nil {
			return err
		}
	}
}

// next waits for events, or for the time of the next bookmark.
func (w *watching) next(ctx context.Context) ([]registry.Event, error) {
	if !w.bookmarks {
		return w.source.Next(ctx)
	}
	wait, cancel := context.WithTimeout(ctx, bookmarkEvery)
	defer cancel()
	events, err := w.source.Next(wait)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return []registry.Event{w.source.Bookmark()}, nil
	}
	return events, err
}

// event writes one event. A long one goes past the buffer, so the watcher's time
// to take it begins here.
func (w *watching) event(e *registry.Event) error {
	w.patience.Reset(writeTime)
	if e.InitialEnd {
		e.Object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return w.stream.Write(w.out, &wire.Change{Type: e.Type, Object: e.Object, Shared: e.Shared})
}

// send lets go of what is buffered. A watcher that doesn't take it in time is
// given up.
func (w *watching) send() error {
	w.patience.Reset(writeTime)
	defer w.patience.Stop()
	if err := w.out.Flush(); err != nil {
		return err
	}
	if err := w.flush.Flush(); err != nil {
		return err
	}
	// Over HTTP/2 a deadline ends the stream when it passes, written or not.
	return w.flush.SetWriteDeadline(time.Time{})
}

// end tells the client why no more events come, if it is still there.
func (w *watching) end(ctx context.Context, err error) {
	if errors.As(err, new(apierrors.APIStatus)) {
		_ = w.stream.Fail(w.out, statusOf(err))
		_ = w.send()
		return
	}
	if w.bookmarks && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		last := w.source.Bookmark()
		_ = w.event(&last)
	}
	if !errors.Is(err, store.ErrClosed) {
		_ = w.send()
	}
}
