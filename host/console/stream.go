package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/schedule"
)

const (
	// interval is between two frames.
	interval = 250 * time.Millisecond
	// tableInterval is that of tables, which come whole when something has changed.
	tableInterval = time.Second
	// silence is after how long an empty frame says that the host is there.
	silence = 10 * time.Second
	// streamLife is how long a stream lasts at most: its successor must be let in again.
	streamLife = time.Hour
)

// A looker makes the frames of one stream: what has changed since the last one, nil
// for nothing.
type looker interface {
	frame(context.Context, rights) (any, error)
}

// view is what is made of a look at the scheduler.
type view[T any] interface {
	frame(of T, who visible) any
}

// looking is a looker at the scheduler.
type looking[T any] struct {
	shared *shared[T]
	view   view[T]
}

func (l looking[T]) frame(ctx context.Context, r rights) (any, error) {
	of, err := l.shared.latest(ctx)
	if err != nil {
		return nil, err
	}
	return l.view.frame(of, newVisible(r)), nil
}

// looker makes the one that a stream's query names, and tells how long it waits
// between two frames. leave has to be called at its end.
func (c *Console) looker(query url.Values) (l looker, wait time.Duration, leave func(), err error) {
	filter, chosen := query.Get("filter"), query.Get("chosen")
	switch name := query.Get("view"); name {
	case "topology":
		return looking[schedule.Glance]{&c.glances, &topology{label: query.Get("label"), apps: map[string]int{}, slice: maxSlice}}, interval, func() {}, nil
	case "pending":
		return looking[[]waiting]{&c.waiting, pending{query.Get("open")}}, tableInterval, func() {}, nil
	case "workloads":
		all := func(rows []workloadRow) []workloadRow { return rows }
		return &table[workloadRow, workloadRow]{of: &c.workloads, rows: all, before: byState, filter: filter, chosen: chosen}, tableInterval, c.workloads.look(), nil
	case "services":
		return &table[servicePart, serviceRow]{of: &c.services, rows: serviceSums, before: byAnswers, filter: filter, chosen: chosen}, tableInterval, c.services.look(), nil
	case "events":
		return &events{of: &c.events, filter: filter}, tableInterval, c.events.look(), nil
	default:
		return nil, 0, nil, fmt.Errorf("no view %q is streamed: topology, pending, workloads, services and events are", name)
	}
}

// stream answers GET /console/v1/stream?view=&label= with frames, each a line of
// JSON.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	who, _ := request.UserFrom(r.Context())
	query := r.URL.Query()
	shown, wait, leave, err := c.looker(query)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), c.lifeOf(r))
	defer cancel()
	rights, needs := rights{ctx, who, c.May}, views[query.Get("view")]
	if !rights.all(needs) {
		http.Error(w, fmt.Sprintf("%s may not see this: it needs to %s %s", who.GetName(), needs[0].verb, needs[0].resource), http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := frames{w: w, flush: http.NewResponseController(w).Flush, now: c.Now}
	next := time.NewTicker(wait)
	defer next.Stop()
	for rights.all(needs) {
		frame, err := shown.frame(ctx, rights)
		if err != nil || out.send(frame) != nil {
			return
		}
		if part, ok := frame.(interface{ more() bool }); ok && part.more() {
			continue // the rest of it does not wait
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// lifeOf is how long the stream that a request asks for lasts: as its session, at most.
func (c *Console) lifeOf(r *http.Request) time.Duration {
	if s, ok := c.session(r); ok {
		return min(streamLife, s.Until.Sub(c.Now()))
	}
	return streamLife
}

// frames are written as they differ from the last.
type frames struct {
	w     http.ResponseWriter
	flush func() error
	now   func() time.Time
	last  []byte
	sent  time.Time
}

func (f *frames) send(frame any) error {
	line := []byte("{}")
	if frame != nil {
		var err error
		if line, err = json.Marshal(frame); err != nil {
			return err
		}
	}
	if (frame == nil || bytes.Equal(line, f.last)) && f.now().Sub(f.sent) < silence {
		return nil
	}
	if frame != nil {
		f.last = line
	}
	f.sent = f.now()
	if _, err := f.w.Write(append(bytes.Clone(line), '\n')); err != nil {
		return err
	}
	return f.flush()
}

// shared is one look at the scheduler for all tabs.
type shared[T any] struct {
	look  func(context.Context) (T, error)
	every time.Duration
	now   func() time.Time
	// turn is held by whoever looks: the others wait, and then have what he saw.
	turn chan struct{}
	last T
	at   time.Time
}

func newShared[T any](now func() time.Time, every time.Duration, look func(context.Context) (T, error)) shared[T] {
	return shared[T]{look: look, every: every, now: now, turn: make(chan struct{}, 1)}
}

// latest is what was seen, no longer ago than a frame.
func (l *shared[T]) latest(ctx context.Context) (of T, err error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return of, ctx.Err()
	}
	if l.now().Sub(l.at) < l.every*4/5 {
		return l.last, nil
	}
	if of, err = l.look(ctx); err != nil {
		return of, err
	}
	l.last, l.at = of, l.now()
	return of, nil
}

// visible tells in which namespaces a user may list a resource at this moment.
type visible struct {
	rights rights
	of     question
	every  bool
	known  map[string]bool
}

// newVisible is that of pods.
func newVisible(r rights) visible { return listable(r, "pods") }

// listable is that of a resource as the store names it: pods, deployments.apps.
func listable(r rights, resource string) visible {
	name, group, _ := strings.Cut(resource, ".")
	of := question{verb: "list", group: group, resource: name}
	return visible{rights: r, of: of, every: r.may(of), known: map[string]bool{}}
}

func (v visible) in(namespace string) bool {
	if v.every {
		return true
	}
	may, ok := v.known[namespace]
	if !ok {
		q := v.of
		q.namespace = namespace
		may = v.rights.may(q)
		v.known[namespace] = may
	}
	return may
}

// same says that all that was let through before would be now, and the reverse.
func (v visible) same(before visible) bool {
	if v.every != before.every {
		return false
	}
	for namespace, may := range before.known {
		if v.in(namespace) != may {
			return false
		}
	}
	return true
}
