package explain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Report is a table of nodes by policies, and what came of it.
type Report struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// UID tells pods apart that had the name one after the other.
	UID types.UID `json:"uid,omitempty"`
	// State is where the pod is: active, backoff, waiting, gated, bound, preempted,
	// gone; decided where one decision was asked for by its number.
	State string `json:"state"`
	// Node is where the pod is or was decided to go, empty for nowhere.
	Node    string `json:"node,omitempty"`
	Message string `json:"message,omitempty"`
	// Profile and Set tell who decided.
	Profile string `json:"profile"`
	Set     int64  `json:"set"`
	// Derived says from which state: "decision" or "present".
	Derived string `json:"derived"`
	// Note says what limits the answer, empty for nothing.
	Note     string    `json:"note,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
	// Room is what was made for the pod by preemption, PreemptedBy what was made
	// for another pod, for which this one had to go.
	Room        *Room `json:"room,omitempty"`
	PreemptedBy *Room `json:"preemptedBy,omitempty"`

	Nodes      int         `json:"nodes"`
	Feasible   int         `json:"feasible"`
	Best       int64       `json:"best"`
	Predicates []Predicate `json:"predicates"`
	Priorities []Priority  `json:"priorities"`
	// Rows are the nodes, the best first, of equal ones the chosen, then those that
	// refuse, by name.
	Rows []Row `json:"rows,omitempty"`
	// Left is how many rows are left out.
	Left int `json:"left,omitempty"`
}

// Decision is what the trace says.
type Decision struct {
	Number   uint64        `json:"number"`
	At       time.Time     `json:"at"`
	Took     time.Duration `json:"took"`
	Position uint64        `json:"position"`
	Seed     uint64        `json:"seed"`
	Tied     int           `json:"tied"`
	// Same says that deriving it again gave the same node.
	Same bool `json:"same"`
}

// Predicate is a column of verdicts.
type Predicate struct {
	Name    string `json:"name"`
	Group   string `json:"group,omitempty"`
	Skipped bool   `json:"skipped,omitempty"`
	Error   string `json:"error,omitempty"`
	// Refuses counts the nodes that it refuses, Alone those that it alone does.
	Refuses int `json:"refuses"`
	Alone   int `json:"alone"`
}

// Priority is a column of scores.
type Priority struct {
	Name    string `json:"name"`
	Weight  int64  `json:"weight"`
	Skipped bool   `json:"skipped,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Row is a node.
type Row struct {
	Node     string `json:"node"`
	Feasible bool   `json:"feasible"`
	Chosen   bool   `json:"chosen,omitempty"`
	// Refusals are all that hold, in the profile's order.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Scores stand by priority, in the order of Report.Priorities.
	Scores []Score `json:"scores,omitempty"`
	Total  int64   `json:"total"`
}

// Refusal is a predicate's no.
type Refusal struct {
	Predicate string `json:"predicate"`
	Reason    string `json:"reason"`
	// Final says that preemption cannot mend it.
	Final bool `json:"final,omitempty"`
}

// Score is a priority's part in a total.
type Score struct {
	Raw        int64 `json:"raw"`
	Normalized int64 `json:"normalized"`
	Weighted   int64 `json:"weighted"`
}

// host is the column of what the host itself refuses, after the profile's.
func hostColumn(t *cycle.Table, log snapshot.Log, pod *snapshot.Pod, nominated map[int32][]*snapshot.Pod, excluded map[int32]string) map[int]string {
	refused := map[int]string{}
	for i, slot := range t.Rows {
		row := log.Row(slot)
		if why, ok := excluded[slot]; ok {
			refused[i] = why
			continue
		}
		short := row.Shortage(pod)
		if more := nominated[slot]; short == "" && len(more) > 0 {
			if short = row.With(more...).Shortage(pod); short != "" {
				short += " beside the pods for which room is kept"
			}
		}
		if short != "" {
			refused[i] = short
		}
	}
	return refused
}

// fill writes a table into the report.
func (r *Report) fill(t *cycle.Table, reasons *framework.Reasons, log snapshot.Log, host map[int]string, o Options) {
	r.Nodes = len(t.Rows)
	alone := countAlone(t, host)
	for k := range t.Predicates {
		r.Predicates = append(r.Predicates, predicateOf(&t.Predicates[k], alone[k]))
	}
	hostPredicate := Predicate{Name: cycle.Host, Refuses: len(host), Alone: alone[len(t.Predicates)]}
	r.Predicates = append(r.Predicates, hostPredicate)
	for k := range t.Priorities {
		p := &t.Priorities[k]
		r.Priorities = append(r.Priorities, Priority{Name: p.Policy, Weight: p.Weight, Skipped: p.Skipped, Error: text(p.Err)})
	}
	for i := range t.Rows {
		if _, refused := host[i]; t.Feasible[i] && !refused {
			r.Feasible++
			r.Best = max(r.Best, t.Total[i])
		}
	}
	r.rows(t, reasons, log, host, o)
}

func predicateOf(v *cycle.Verdicts, alone int) Predicate {
	p := Predicate{Name: v.Policy, Group: v.Group, Skipped: v.Skipped, Error: text(v.Err), Alone: alone}
	for _, reason := range v.Reasons {
		if reason != 0 {
			p.Refuses++
		}
	}
	return p
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// countAlone counts by predicate, the host last, the nodes that it alone refuses.
func countAlone(t *cycle.Table, host map[int]string) []int {
	alone := make([]int, len(t.Predicates)+1)
	for i := range t.Rows {
		who, n := -1, 0
		for k := range t.Predicates {
			if t.Predicates[k].Reasons[i] != 0 {
				who, n = k, n+1
			}
		}
		if _, refused := host[i]; refused && n == 0 {
			who, n = len(t.Predicates), 1
		}
		if n == 1 {
			alone[who]++
		}
	}
	return alone
}
