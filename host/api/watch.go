package api

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/wire"
	"github.com/berth-dev/berth/host/store"

	"github.com/labstack/echo/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watch from its first byte to its last:
//
//	serveListOrWatch ─► watch ──► follow ──► turn, take ──► event, send ──► end
//	  (a worker)       headers,   waits on    writes what came,              a Status, the
//	                   initial    a small     or a bookmark, when it is      last bookmark
//	                   events     stack       its client's turn (a worker,
//	                                          unless busy)
//
// Its times:
const (
	// bookmarkEvery is Kubernetes' own period.
	bookmarkEvery = time.Minute
	// A watch without timeoutSeconds ends after half an hour to an hour, so that
	// clients spread over servers again.
	minWatchTime = 30 * time.Minute
	// maxWatchTime bounds timeoutSeconds.
	maxWatchTime = 24 * time.Hour
	// busyWatch: a watch that wrote within this time writes on with its own stack,
	// which has grown to what that takes. It shrinks again while the watch is idle.
	busyWatch = 5 * time.Second
)

// writeTime is how long a watcher may take to accept what is sent before it is
// given up, together with what it holds in memory.
var writeTime = 30 * time.Second

// watchStream is one watch in progress. Most of its life it waits, and thousands
// may: so it waits with a small stack, and has a buffer only while it writes.
type watchStream struct {
	call      *call
	stream    wire.Stream
	source    *registry.Watch
	bookmarks bool
	until     time.Time
	timer     *time.Timer
	out       *bufio.Writer // nil while nothing is to be sent
	flush     *http.ResponseController
	deadline  *ioDeadline // of a write
	wrote     time.Time
}

// buffers are for events on their way.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}

// serveListOrWatch makes a handler of lists and watches. What begins and ends a
// watch, and writes, runs on a worker: the request's own goroutine waits for
// hours, and shall not have grown a stack for that. A watch that is spelled with
// escapes goes without the worker.
func (s *server) serveListOrWatch(at *target, answer func(*call) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		var k *call
		if strings.Contains(c.Request().URL.RawQuery, "watch") {
			workers.do(func() { k = s.run(c, at, answer) })
		} else {
			k = s.run(c, at, answer)
		}
		if k.watching != nil {
			k.watching.follow()
		}
		return nil
	}
}

// watch begins a watch; follow goes on with it.
func (k *call) watch() error {
	t, err := k.typed(true)
	if err != nil {
		return err
	}
	r, opts, timeout, err := k.watchOptions()
	if err != nil {
		return err
	}
	source, err := k.server.Registry.Watch(k.r.Context(), r, opts.WatchOptions)
	if apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) {
		return err
	}
	w := &watchStream{call: k, stream: wire.Stream{Typed: t}, source: source, bookmarks: opts.bookmarks,
		until: time.Now().Add(timeout), flush: http.NewResponseController(k.w), deadline: k.writeDeadline(writeTime)}
	w.deadline.Stop()
	k.header(t.Format.StreamType())
	k.w.WriteHeader(http.StatusOK)
	if err != nil { // such as 410 Gone: clients look for it in the stream
		w.end(err)
		return nil
	}
	w.timer = time.NewTimer(w.untilNext())
	k.watching, k.query = w, nil
	_ = w.send()
	return nil
}

// watchOptions are what the query wants.
type watchOptions struct {
	registry.WatchOptions
	bookmarks bool
}

func (k *call) watchOptions() (r *registry.Request, o watchOptions, timeout time.Duration, err error) {
	if r, err = k.request(); err != nil {
		return nil, o, 0, err
	}
	if k.param("name") != "" {
		r.Name = ""
	}
	opts, err := k.query.list(r)
	if err != nil {
		return nil, o, 0, err
	}
	o.Selector, o.ResourceVersion = opts.Selector, opts.ResourceVersion
	if opts.SendInitialEvents != nil {
		o.InitialEvents = *opts.SendInitialEvents
		if !o.InitialEvents && (o.ResourceVersion == "" || o.ResourceVersion == "0") {
			o.ResourceVersion = strconv.FormatInt(k.server.Registry.Store().Revision(), 10)
		}
	}
	o.bookmarks = opts.AllowWatchBookmarks || o.InitialEvents
	return r, o, watchTime(opts.TimeoutSeconds), nil
}

func watchTime(seconds *int64) time.Duration {
	if seconds != nil && *seconds > 0 && *seconds < int64(maxWatchTime/time.Second) {
		return time.Duration(*seconds) * time.Second
	}
	return minWatchTime + rand.N(minWatchTime)
}

// follow sends events until the time is over or something fails.
func (w *watchStream) follow() {
	w.call.watching = nil // the next end is the end
	defer w.call.end()
	defer w.source.Stop()
	defer w.timer.Stop()
	ctx := w.call.r.Context()
	for {
		events, err := w.source.NextBefore(ctx, w.timer.C)
		w.call.turn(func() {
			if time.Since(w.wrote) < busyWatch {
				err = w.take(events, err)
				return
			}
			workers.do(func() { err = w.take(events, err) })
		})
		if err != nil {
			return
		}
	}
}

// errOver says that the watch has ended as it should.
var errOver = errors.New("the watch's time is over")

// take sends what came: events, an error, or nothing but the time.
func (w *watchStream) take(events []registry.Event, err error) error {
	if err == nil && len(events) == 0 {
		if !time.Now().Before(w.until) {
			err = errOver
		} else if w.bookmarks {
			events = []registry.Event{w.source.Bookmark()}
		}
		w.timer.Reset(w.untilNext())
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

// untilNext is the time until the next bookmark, or the end.
func (w *watchStream) untilNext() time.Duration {
	left := max(time.Until(w.until), 0)
	if w.bookmarks {
		return min(left, bookmarkEvery)
	}
	return left
}

// event writes one event. A long one goes past the buffer, so the watcher's time
// to take it begins here.
func (w *watchStream) event(e *registry.Event) error {
	w.deadline.Reset(writeTime)
	if e.InitialEnd {
		e.Object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return w.stream.Write(w.buffer(), &wire.Change{Type: e.Type, Object: e.Object, Shared: e.Shared})
}

// buffer is where what is to be sent is gathered.
func (w *watchStream) buffer() *bufio.Writer {
	if w.out == nil {
		w.out = buffers.Get().(*bufio.Writer)
		w.out.Reset(w.call.w)
	}
	return w.out
}

// send lets go of what is buffered. A watcher that doesn't take it in time is
// given up.
func (w *watchStream) send() error {
	w.deadline.Reset(writeTime)
	defer w.deadline.Stop()
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
func (w *watchStream) end(err error) {
	defer w.deadline.Stop()
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
