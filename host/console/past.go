package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strconv"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

const (
	// maxLooksBack is how many look back at a time: each has a copy of the cluster.
	maxLooksBack = 2
	// maxDecisions is how many decisions are told with a moment, maxSearched how
	// many are looked through for those that the user may see.
	maxDecisions = 50
	maxSearched  = 5000
)

// moment is the cluster as it was. Times are in milliseconds.
type moment struct {
	// Oldest and Newest are the times of the first and the last decision that are
	// kept; 0 where none is.
	Oldest int64 `json:"oldest"`
	Newest int64 `json:"newest"`
	At     int64 `json:"at"`
	// Now says that this is the present.
	Now       bool           `json:"now,omitempty"`
	Topology  any            `json:"topology"`
	Decisions []decisionLine `json:"decisions"`
}

// decisionLine is a decision at that moment or before, in short.
type decisionLine struct {
	Number    uint64 `json:"number"`
	At        int64  `json:"at"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Outcome   string `json:"outcome"`
	Node      string `json:"node,omitempty"`
	Feasible  int    `json:"feasible"`
	Nodes     int    `json:"nodes"`
	Message   string `json:"message,omitempty"`
	// Preempts is how many pods had to go, on the node Made.
	Preempts int    `json:"preempts,omitempty"`
	Made     string `json:"made,omitempty"`
}

// past answers GET /console/v1/past?at=&label= with the topology as it was at a time,
// and the decisions that were made last before it, by what the user may list now.
func (c *Console) past(w http.ResponseWriter, r *http.Request) {
	who, _ := request.UserFrom(r.Context())
	rights := rights{r.Context(), who, c.May}
	if needs := views["time"]; !rights.all(needs) {
		http.Error(w, fmt.Sprintf("%s may not see this: it needs to %s %s", who.GetName(), needs[0].verb, needs[0].resource), http.StatusForbidden)
		return
	}
	query := r.URL.Query()
	at, err := strconv.ParseInt(query.Get("at"), 10, 64)
	if err != nil && query.Get("at") != "" {
		http.Error(w, "at: want a time in milliseconds since 1970", http.StatusBadRequest)
		return
	}
	select {
	case c.looksBack <- struct{}{}:
		defer func() { <-c.looksBack }()
	case <-r.Context().Done():
		return
	}
	m, err := c.momentOf(r.Context(), newVisible(rights), at, query.Get("label"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	answer(w, m)
}

// momentOf is the moment at a time, 0 for now.
func (c *Console) momentOf(ctx context.Context, of visible, at int64, label string) (*moment, error) {
	oldest, next, err := c.Scheduler.Held(ctx)
	if err != nil {
		return nil, err
	}
	traces := c.Scheduler.Traces()
	m := &moment{At: at, Decisions: []decisionLine{}}
	behind := next // the first decision behind the time
	if oldest < next {
		m.Oldest, m.Newest = timeOf(traces, oldest), timeOf(traces, next-1)
	}
	if at > 0 && oldest < next {
		behind = oldest + uint64(sort.Search(int(next-oldest), func(n int) bool { return timeOf(traces, oldest+uint64(n)) > at }))
	}
	rows, err := c.rowsBefore(ctx, traces, behind)
	if err != nil {
		return nil, err
	}
	m.Now = behind >= next
	m.Topology = (&topology{label: label, apps: map[string]int{}}).frame(schedule.Glance{Rows: rows}, of)
	for n := behind; n > oldest && behind-n < maxSearched && len(m.Decisions) < maxDecisions; n-- {
		if trace, ok := traces.Get(n - 1); ok && of.in(trace.Namespace) {
			m.Decisions = append(m.Decisions, lineOf(&trace))
		}
	}
	return m, nil
}

// rowsBefore are the nodes as a decision found them, or as they are now where it has
// not been made yet.
func (c *Console) rowsBefore(ctx context.Context, traces *schedule.Traces, number uint64) (rows []*snapshot.Row, err error) {
	trace, ok := traces.Get(number)
	if !ok {
		g, err := c.glances.latest(ctx)
		return g.Rows, err
	}
	view, ok, err := c.Scheduler.At(ctx, trace.Position)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("the log does not reach back to this time any more")
	}
	for slot := range view.Slots() {
		rows = append(rows, view.Row(slot))
	}
	return rows, nil
}

func timeOf(traces *schedule.Traces, number uint64) int64 {
	trace, _ := traces.Get(number)
	return trace.Now / 1e6
}

func lineOf(t *schedule.Trace) decisionLine {
	line := decisionLine{
		Number: t.Number, At: t.Now / 1e6, Namespace: t.Namespace, Pod: t.Name, Outcome: string(t.Outcome), Node: t.Node,
		Feasible: t.Feasible, Nodes: t.Nodes, Message: t.Message, Made: t.Made,
	}
	if t.Preemption != nil {
		line.Preempts = len(t.Preemption.Victims)
	}
	return line
}
