package api

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
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

// watching is one watch in progress. Most of its life it waits, and thousands may:
// so it waits with a small stack, and has a buffer only while it writes.
type watching struct {
	call      *call
	stream    wire.Stream
	source    *registry.Watch
	bookmarks bool
	until     time.Time
	timer     *time.Timer
	out       *bufio.Writer // nil while nothing is to be sent
	flush     *http.ResponseController
	patience  *patience
	wrote     time.Time
}

// buffers are for events on their way.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}

// watch begins a watch; follow goes on with it.
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
	source, err := k.server.Registry.Watch(k.r.Context(), r, registry.WatchOptions{Selector: opts.Selector, ResourceVersion: version, InitialEvents: initial})
	if apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) {
		return err
	}
	w := &watching{call: k, stream: wire.Stream{Typed: t}, source: source, bookmarks: opts.AllowWatchBookmarks || initial,
		until: time.Now().Add(watchTime(opts.TimeoutSeconds)), flush: http.NewResponseController(k.w), patience: k.giveUpWriting(writeTime)}
	w.patience.Stop()
	k.header(t.Format.StreamType())
	k.w.WriteHeader(http.StatusOK)
	if err != nil {
		w.end(err)
		return nil
	}
	w.timer = time.NewTimer(w.rest())
	k.watching, k.query = w, nil
	_ = w.send()
	return nil
}

func watchTime(asked *int64) time.Duration {
	if asked != nil && *asked > 0 && *asked < int64((24*time.Hour)/time.Second) {
		return time.Duration(*asked) * time.Second
	}
	return watchAtLeast + rand.N(watchAtLeast)
}

// follow sends events until the time is over or something fails.
func (w *watching) follow() {
	w.call.watching = nil // the next end is the end
	defer w.call.end()
	defer w.source.Stop()
	defer w.timer.Stop()
	ctx := w.call.r.Context()
	for {
		events, err := w.source.NextBefore(ctx, w.timer.C)
		if time.Since(w.wrote) < busyWatch {
			err = w.take(events, err)
		} else {
			workers.do(func() { err = w.take(events, err) })
		}
		if err != nil {
			return
		}
	}
}

// A watch that wrote within this time writes on with its own stack, which has
// grown to what that takes. It shrinks again while the watch is idle.
const busyWatch = 5 * time.Second

// errOver says that the watch has ended as it should.
var errOver = errors.New("the watch's time is over")

// take sends what came: events, an error, or nothing but the time.
func (w *watching) take(events []registry.Event, err error) error {
	if err == nil && len(events) == 0 {
		if !time.Now().Before(w.until) {
			err = errOver
		} else if w.bookmarks {
			events = []registry.Event{w.source.Bookmark()}
		}
		w.timer.Reset(w.rest())
	}
	if err != nil {
		w.end(err)
		return err
	}
	if len(events) == 0 {
		return nil
	}
	w.wrote = time.Now()
	for i := range events {
		if err := w.event(&events[i]); err != nil {
			w.end(err)
			return err
		}
	}
	return w.send()
}

// rest is the time until the next bookmark, or the end.
func (w *watching) rest() time.Duration {
	left := max(time.Until(w.until), 0)
	if w.bookmarks {
		return min(left, bookmarkEvery)
	}
	return left
}

// event writes one event. A long one goes past the buffer, so the watcher's time
// to take it begins here.
func (w *watching) event(e *registry.Event) error {
	w.patience.Reset(writeTime)
	if e.InitialEnd {
		e.Object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return w.stream.Write(w.buffer(), &wire.Change{Type: e.Type, Object: e.Object, Shared: e.Shared})
}

// buffer is where what is to be sent is gathered.
func (w *watching) buffer() *bufio.Writer {
	if w.out == nil {
		w.out = buffers.Get().(*bufio.Writer)
		w.out.Reset(w.call.w)
	}
	return w.out
}

// send lets go of what is buffered. A watcher that doesn't take it in time is
// given up.
func (w *watching) send() error {
	w.patience.Reset(writeTime)
	defer w.patience.Stop()
	if w.out != nil {
		if err := w.out.Flush(); err != nil {
			return err
		}
		w.out.Reset(nil)
		buffers.Put(w.out)
		w.out = nil
	}
	if err := w.flush.Flush(); err != nil {
		return err
	}
	// Over HTTP/2 a deadline ends the stream when it passes, written or not.
	return w.flush.SetWriteDeadline(time.Time{})
}

// end tells the client why no more events come, if it is still there.
func (w *watching) end(err error) {
	defer w.patience.Stop()
	if errors.As(err, new(apierrors.APIStatus)) {
		_ = w.stream.Fail(w.buffer(), statusOf(err))
		_ = w.send()
		return
	}
	if w.bookmarks && errors.Is(err, errOver) {
		last := w.source.Bookmark()
		_ = w.event(&last)
	}
	if !errors.Is(err, store.ErrClosed) {
		_ = w.send()
	}
}
