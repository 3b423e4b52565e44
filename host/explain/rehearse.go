package explain

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// maxChanges bounds how many changes a rehearsal tells one by one.
const maxChanges = 100

// Rehearsal is what other policies would have made of past decisions, each by
// itself: what follows from a pod's being elsewhere is not played out.
type Rehearsal struct {
	// Decisions were judged again, the newest of each pod. Preempting of further
	// ones were too, the newest of each pod that made room for it.
	Decisions  int `json:"decisions"`
	Preempting int `json:"preempting,omitempty"`
	// Remade of them were made by other policies than are live now: Was is then
	// what the live ones would have made of them.
	Remade int `json:"remade,omitempty"`
	// Outside are those asked for that the log no longer reaches.
	Outside int `json:"outside"`
	// Changed of them would have ended otherwise; Changes are the first of those.
	Changed int      `json:"changed"`
	Changes []Change `json:"changes,omitempty"`
	// Stranded of the changed ones had a node and would have none.
	Stranded int `json:"stranded,omitempty"`
	// Failed of the decisions made a policy that was put in fail; Failure is how
	// the first of them did.
	Failed  int    `json:"failed,omitempty"`
	Failure string `json:"failure,omitempty"`
	// Rows is about how many rows the policies that were put in were asked beside,
	// RowsFailure how they failed at that; empty where they did not.
	Rows        int    `json:"rows,omitempty"`
	RowsFailure string `json:"rowsFailure,omitempty"`
	// Kinds are those of the policies that were put in, by their order. Gates
	// and controllers decide about no placement: there is nothing to rehearse.
	Kinds []string `json:"kinds,omitempty"`
	// Note says what limits the answer.
	Note string `json:"note,omitempty"`
}

// Change is a decision that would have ended otherwise.
type Change struct {
	Number    uint64 `json:"number"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Was and Would are nodes; empty is none.
	Was   string `json:"was,omitempty"`
	Would string `json:"would,omitempty"`
	// Made is the room that was made by preemption, Makes that which would be.
	Made  *Room  `json:"made,omitempty"`
	Makes *Room  `json:"makes,omitempty"`
	Why   string `json:"why"`
}

// Variant is a live set beside the one that it would take the place of, both
// opened for this alone.
type Variant struct {
	Live, Varied *framework.LiveSet
	// Profiles are those in which the two differ, Policies the names of what was
	// put in.
	Profiles map[string]bool
	Policies map[string]bool
	// Apart is Varied once more, to be asked about other nodes; nil for not to.
	Apart *framework.LiveSet
}

// Rehearse judges up to most of the newest decisions again, by the live set and
// by its variant, from the states in which they were made.
func Rehearse(ctx context.Context, s *schedule.Scheduler, v Variant, most int) (*Rehearsal, error) {
	r := &Rehearsal{Outside: s.Traces().Lost(most)}
	traces, superseded := newest(s.Traces().Last(most), v)
	if v.Apart != nil {
		var err error
		if r.RowsFailure, err = v.tryRows(ctx, s, traces); err != nil {
			return nil, fmt.Errorf("rehearse on %d rows: %w", TriedRows, err)
		}
		r.Rows = TriedRows
	}
	if len(traces) == 0 {
		r.Note = "no decision about a pod of these profiles is recorded yet"
		return r, nil
	}
	tape, err := s.Tape(ctx, traces[0].Position)
	if err != nil {
		return nil, fmt.Errorf("rehearse: %w", err)
	}
	for i := range traces {
		if !tape.Forward(traces[i].Position) {
			r.Outside++
			continue
		}
		one, err := rehearse(ctx, s.Reasons(), tape, v, &traces[i])
		if err != nil {
			return nil, fmt.Errorf("rehearse decision %d: %w", traces[i].Number, err)
		}
		if superseded[traces[i].Number] {
			r.Preempting++
		} else {
			r.Decisions++
		}
		r.count(one)
	}
	return r, nil
}

// count takes a decision in.
func (r *Rehearsal) count(one rehearsed) {
	if one.remade {
		r.Remade++
	}
	if one.failure != "" {
		if r.Failed++; r.Failed == 1 {
			r.Failure = one.failure
		}
	}
	if one.change == nil {
		return
	}
	if one.stranded {
		r.Stranded++
	}
	if r.Changed++; len(r.Changes) < maxChanges {
		r.Changes = append(r.Changes, *one.change)
	}
}

// newest keeps the last decision about each pod that the variant concerns, and
// the last that made room for it: superseded are those of the latter that are
// not the pod's last.
func newest(traces []schedule.Trace, v Variant) (kept []schedule.Trace, superseded map[uint64]bool) {
	seen, made := map[types.UID]bool{}, map[types.UID]bool{}
	superseded = map[uint64]bool{}
	for i := range slices.Backward(traces) {
		t := &traces[i]
		decided := t.Outcome == schedule.Placed || t.Outcome == schedule.Refused
		makes := t.Made != "" && !made[t.UID]
		if !decided || seen[t.UID] && !makes {
			continue
		}
		if p := v.Live.For(t.Pod); p == nil || !v.Profiles[p.Name] {
			continue
		}
		if seen[t.UID] {
			superseded[t.Number] = true
		}
		seen[t.UID], made[t.UID] = true, made[t.UID] || makes
		kept = append(kept, *t)
	}
	slices.Reverse(kept)
	return kept, superseded
}

// judged is what a set says of a decision. What a set beside it said by the same
// policies is not asked again.
type judged struct {
	table *cycle.Table
	best  []int32
	pick  int32
}

func judge(ctx context.Context, p *framework.Profile, reasons *framework.Reasons, log snapshot.Log, t *schedule.Trace, beside *cycle.Table) (*judged, error) {
	table, err := cycle.JudgeBeside(ctx, p, reasons, log, t.Pod, t.Now, beside)
	if err != nil {
		return nil, err
	}
	j := &judged{table: table, pick: pick(table, hostColumn(table, log, t.Pod, t.Nominated, t.Excluded), t.Seed)}
	j.best, _ = table.Best()
	return j, nil
}

// rehearsed is what comes of one decision: nil is no change.
type rehearsed struct {
	change *Change
	// remade tells that other policies than the live ones made it.
	remade bool
	// stranded tells that its pod would have no node, and had one.
	stranded bool
	failure  string
}

// rehearse compares what both sets say of one decision. The same luck decides
// among equals, but to be among the best is as good as to be chosen: another
// pick alone is no change.
func rehearse(ctx context.Context, reasons *framework.Reasons, log snapshot.Log, v Variant, t *schedule.Trace) (one rehearsed, err error) {
	live, err := judge(ctx, v.Live.For(t.Pod), reasons, log, t, &cycle.Table{})
	if err != nil {
		return one, err
	}
	deciding := v.Varied.For(t.Pod)
	if deciding == nil {
		one.change = &Change{Number: t.Number, Namespace: t.Namespace, Pod: t.Name, Was: name(log, live.pick), Why: "no profile would claim the pod"}
		one.stranded = live.pick >= 0
		return one, nil
	}
	varied, err := judge(ctx, deciding, reasons, log, t, live.table)
	if err != nil {
		return one, err
	}
	one.failure = failureOf(varied.table, v.Policies)
	was := live.pick
	one.remade = name(log, live.pick) != t.Node
	for _, row := range live.best {
		if name(log, row) == t.Node {
			was, one.remade = row, false // where it went indeed
		}
	}
	if was < 0 && varied.pick < 0 {
		one.change, one.remade, err = otherRoom(ctx, reasons, log, v.Live.For(t.Pod), deciding, t)
		return one, err
	}
	if was == varied.pick || was >= 0 && slices.Contains(varied.best, was) {
		return one, nil
	}
	one.stranded = varied.pick < 0
	one.change = &Change{
		Number: t.Number, Namespace: t.Namespace, Pod: t.Name, Made: roomOf(t),
		Was: name(log, was), Would: name(log, varied.pick), Why: why(reasons, log, live.table, varied.table, was, varied.pick),
	}
	return one, nil
}

// otherRoom compares what both sets make by preemption for a pod that fits
// nowhere. remade says that it is other room than was made then.
func otherRoom(ctx context.Context, reasons *framework.Reasons, log snapshot.Log, live, varied *framework.Profile, t *schedule.Trace) (*Change, bool, error) {
	if t.Preemption == nil {
		return nil, false, nil
	}
	was, err := schedule.Redo(ctx, live, reasons, log, t)
	if err != nil {
		return nil, false, err
	}
	would, err := schedule.Redo(ctx, varied, reasons, log, t)
	if err != nil {
		return nil, false, err
	}
	made, makes := roomOf(&was), roomOf(&would)
	remade := made.told() != roomOf(t).told()
	if made.told() == makes.told() {
		return nil, remade, nil
	}
	return &Change{
		Number: t.Number, Namespace: t.Namespace, Pod: t.Name, Made: made, Makes: makes,
		Why: fmt.Sprintf("it fits nowhere: %s, and %s by the live policies", makes.told(), made.told()),
	}, remade, nil
}

func name(log snapshot.Log, row int32) string {
	if row < 0 {
		return ""
	}
	return log.Row(row).Node.Name
}

// why says in a line what moved a pod from a row to another.
func why(reasons *framework.Reasons, log snapshot.Log, live, varied *cycle.Table, was, would int32) string {
	if was >= 0 {
		at := slices.Index(varied.Rows, was)
		if k, _ := varied.First(at); k >= 0 {
			return fmt.Sprintf("%s refuses %s: %s", varied.Predicates[k].Policy, name(log, was), varied.Predicates[k].Text(reasons, at))
		}
	}
	at := slices.Index(varied.Rows, would)
	if k, _ := live.First(at); k >= 0 {
		return fmt.Sprintf("%s no longer refuses %s (%s)", live.Predicates[k].Policy, name(log, would), live.Predicates[k].Text(reasons, at))
	}
	if was < 0 {
		return "there is room for it now"
	}
	from := slices.Index(varied.Rows, was)
	text := fmt.Sprintf("%s totals %d and %s %d", name(log, would), varied.Total[at], name(log, was), varied.Total[from])
	if k := maxMoved(live, varied, from, at); k >= 0 {
		p := &varied.Priorities[k]
		text += fmt.Sprintf(": %s scores them %d and %d", p.Policy, p.Normalized[at], p.Normalized[from])
	}
	return text
}

// maxMoved is the priority whose preference between two rows has changed
// most, -1 for none.
func maxMoved(live, varied *cycle.Table, from, to int) int {
	prefers := func(s *cycle.Scores) int64 { return s.Weight * (s.Normalized[to] - s.Normalized[from]) }
	found, most := -1, int64(0)
	for k := range varied.Priorities {
		p := &varied.Priorities[k]
		by := prefers(p)
		for i := range live.Priorities {
			if live.Priorities[i].Policy == p.Policy {
				by -= prefers(&live.Priorities[i])
			}
		}
		if by > most {
			found, most = k, by
		}
	}
	return found
}
