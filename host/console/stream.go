package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/schedule"
)

const (
	// interval is between two frames.
	interval = 250 * time.Millisecond
	// silence is after how long an empty frame says that the host is there.
	silence = 10 * time.Second
	// streamLife is how long a stream lasts: its successor must be let in again.
	streamLife = time.Hour
)

// view is what one stream shows.
type view interface {
	// frame is what has changed since the last one, nil for nothing.
	frame(g schedule.Glance, of visible) any
}

// newView makes the view that a stream's query names.
func newView(query url.Values) (view, error) {
	switch name := query.Get("view"); name {
	case "topology":
		return &topology{label: query.Get("label"), apps: map[string]int{}}, nil
	case "pending":
		return new(pending), nil
	default:
		return nil, fmt.Errorf("no view %q is streamed: topology and pending are", name)
	}
}

// stream answers GET /console/v1/stream?view=&label= with frames, each a line of
// JSON.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	who, _ := request.UserFrom(r.Context())
	query := r.URL.Query()
	shown, err := newView(query)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), streamLife)
	defer cancel()
	rights, needs := rights{ctx, who, c.May}, views[query.Get("view")]
	if !rights.all(needs) {
		http.Error(w, fmt.Sprintf("%s may not see this: it needs to %s %s", who.GetName(), needs[0].verb, needs[0].resource), http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := frames{w: w, flush: http.NewResponseController(w).Flush, now: c.Now}
	next := time.NewTicker(interval)
	defer next.Stop()
	for rights.all(needs) {
		g, err := c.glances.latest(ctx)
		if err != nil || out.send(shown.frame(g, newVisible(rights))) != nil {
			return
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
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

// glances shares one look at the scheduler between all tabs.
type glances struct {
	scheduler Scheduler
	now       func() time.Time
	// turn is held by whoever looks: the others wait, and then have his glance.
	turn chan struct{}
	last schedule.Glance
	at   time.Time
}

func newGlances(s Scheduler, now func() time.Time) glances {
	return glances{scheduler: s, now: now, turn: make(chan struct{}, 1)}
}

// latest is a glance that is no older than a frame.
func (l *glances) latest(ctx context.Context) (schedule.Glance, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return schedule.Glance{}, ctx.Err()
	}
	if l.now().Sub(l.at) < interval*4/5 {
		return l.last, nil
	}
	g, err := l.scheduler.Glance(ctx)
	if err != nil {
		return g, err
	}
	l.last, l.at = g, l.now()
	return g, nil
}

// visible tells of which namespaces a user may list the pods at this moment.
type visible struct {
	rights rights
	every  bool
	known  map[string]bool
}

func newVisible(r rights) visible {
	return visible{rights: r, every: r.may(question{verb: "list", resource: "pods"}), known: map[string]bool{}}
}

func (v visible) pods(namespace string) bool {
	if v.every {
		return true
	}
	may, ok := v.known[namespace]
	if !ok {
		may = v.rights.may(question{verb: "list", resource: "pods", namespace: namespace})
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
		if v.pods(namespace) != may {
			return false
		}
	}
	return true
}
