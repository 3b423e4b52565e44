package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/berth-dev/berth/host/store"
)

// watching turns a store's watch into the channel that the suite reads.
type watching struct {
	adapter *adapter
	prefix  string
	opts    storage.ListOptions
	events  chan watch.Event
	ctx     context.Context // that of the Watch call; Stop takes none
	cancel  context.CancelFunc
	once    sync.Once
}

func (a *adapter) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	prefix, err := storage.PrepareKey(keyPrefix, key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	parsed, err := a.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watching{adapter: a, prefix: prefix, opts: opts, events: make(chan watch.Event, 100)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	go w.run(int64(parsed))
	flowcontrol.WatchInitialized(ctx)
	return w, nil
}

func (w *watching) Stop()                          { w.cancel() }
func (w *watching) ResultChan() <-chan watch.Event { return w.events }

func (w *watching) run(from int64) {
	defer close(w.events)
	defer w.cancel()
	if err := w.follow(from); err != nil && w.ctx.Err() == nil {
		w.send(watch.Event{Type: watch.Error, Object: status(err)})
	}
}

func status(err error) runtime.Object {
	if errors.Is(err, store.ErrCompacted) {
		err = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	}
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		s := known.Status()
		return &s
	}
	return &metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
}

func (w *watching) send(ev watch.Event) bool {
	select {
	case w.events <- ev:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// follow sends the state first where that is asked for, then the changes.
func (w *watching) follow(from int64) error {
	asked := w.opts.SendInitialEvents
	switch {
	case asked == nil && from == 0, asked != nil && *asked:
		var err error
		if from, err = w.initial(from); err != nil {
			return err
		}
	case from == 0:
		from = w.adapter.store.Revision()
	}
	changes, err := w.adapter.store.Watch(resource, "", from)
	for err == nil {
		var events []store.Event
		if events, err = changes.Next(w.ctx); err != nil {
			break
		}
		for _, ev := range events {
			if out, ok := w.translate(ev); ok && !w.send(out) {
				return nil
			}
		}
	}
	return err
}

func (w *watching) initial(from int64) (int64, error) {
	list, err := w.adapter.store.List(resource, "", store.ListOptions{})
	if err != nil {
		return 0, err
	}
	if from > list.Revision {
		return 0, storage.NewTooLargeResourceVersionError(uint64(from), uint64(list.Revision), 0)
	}
	for _, obj := range list.Items {
		if w.shows(obj) && !w.send(watch.Event{Type: watch.Added, Object: obj.(*keyedPod).pod()}) {
			return 0, w.ctx.Err()
		}
	}
	if w.opts.SendInitialEvents != nil && w.opts.Predicate.AllowWatchBookmarks {
		mark := &example.Pod{}
		if err := errors.Join(w.adapter.UpdateObject(mark, uint64(list.Revision)), storage.AnnotateInitialEventsEndBookmark(mark)); err != nil {
			return 0, err
		}
		w.send(watch.Event{Type: watch.Bookmark, Object: mark})
	}
	return list.Revision, nil
}

func (w *watching) shows(obj store.Object) bool {
	if obj == nil {
		return false
	}
	name := join(obj)
	if name != w.prefix && !(w.opts.Recursive && strings.HasPrefix(name, w.prefix)) {
		return false
	}
	ok, err := w.opts.Predicate.Matches(obj.(*keyedPod).pod())
	return err == nil && ok
}

func (w *watching) translate(ev store.Event) (watch.Event, bool) {
	before, now := w.shows(ev.Prev), ev.Type != store.Deleted && w.shows(ev.Object)
	switch {
	case now && before:
		return watch.Event{Type: watch.Modified, Object: ev.Object.(*keyedPod).pod()}, true
	case now:
		return watch.Event{Type: watch.Added, Object: ev.Object.(*keyedPod).pod()}, true
	case before:
		last := ev.Prev.(*keyedPod).pod()
		last.ResourceVersion = ev.Object.GetResourceVersion()
		return watch.Event{Type: watch.Deleted, Object: last}, true
	}
	return watch.Event{}, false
}
