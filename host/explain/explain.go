package explain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	"k8s.io/apimachinery/pkg/types"
)

// Options narrow a report.
type Options struct {
	// Node leaves only this node in the rows.
	Node string
	// Limit bounds the rows, 0 for all.
	Limit int
}

// Kinds of errors.
var (
	ErrNoPod     = errors.New("no such pod is known to the scheduler")
	ErrNoNode    = errors.New("no such node")
	ErrNoProfile = errors.New("no profile claims the pod's schedulerName")
	ErrOutside   = errors.New("the decision lies outside the recorded log")
)

// Pod explains a pod: one that is placed, or gone, by the decision that placed
// it, as far as the log reaches back, and one that waits by the present state.
func Pod(ctx context.Context, s *schedule.Scheduler, namespace, name string, o Options) (*Report, error) {
	trace, traced := s.Traces().Of(namespace, name)
	if !traced || trace.Outcome != schedule.Placed {
		r, err := fromPresent(ctx, s, namespace, name, "", o)
		if err == nil && !traced && r.Node != "" && s.Traces().Lost(math.MaxInt) > 0 {
			r.Note = outsideNote
		}
		return r, err
	}
	placed, err := s.Counts(ctx, trace.UID)
	if err != nil {
		return nil, fmt.Errorf("explain %s/%s: %w", namespace, name, err)
	}
	state := "bound"
	if !placed {
		// It waits again, since it could not be bound; or another has its name.
		if r, err := fromPresent(ctx, s, namespace, name, "", o); !errors.Is(err, ErrNoPod) {
			return r, err
		}
		state = "gone"
	}
	r, err := fromTrace(ctx, s, trace, state, o)
	if errors.Is(err, ErrOutside) {
		return fromPresent(ctx, s, namespace, name, outsideNote, o)
	}
	return r, err
}

// Decided explains one decision about a pod by its number, as far as the log
// reaches back. One that lies outside the log is an OutsideError.
func Decided(ctx context.Context, s *schedule.Scheduler, namespace, name string, number uint64, o Options) (*Report, error) {
	trace, ok := s.Traces().Get(number)
	if !ok {
		return nil, outside(ctx, s, number)
	}
	if trace.Namespace != namespace || trace.Name != name {
		return nil, fmt.Errorf("%w: decision %d is not about %s/%s", ErrNoPod, number, namespace, name)
	}
	r, err := fromTrace(ctx, s, trace, "decided", o)
	if errors.Is(err, ErrOutside) {
		return nil, outside(ctx, s, number)
	}
	return r, err
}

const outsideNote = "the decision lies outside the recorded log: this is the present state"

// fromPresent asks the live policies about the present state, between two cycles.
func fromPresent(ctx context.Context, s *schedule.Scheduler, namespace, name, note string, o Options) (*Report, error) {
	var r *Report
	var failed error
	var uid types.UID
	err := s.Inspect(ctx, namespace, name, func(p schedule.Present) {
		if p.Pod != nil {
			uid = p.Pod.UID()
		}
		r, failed = present(ctx, p, o)
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("explain %s/%s: %w", namespace, name, err)
	}
	r.Namespace, r.Pod, r.UID, r.Note = namespace, name, uid, note
	r.preempting(s, uid)
	if trace, ok := s.Traces().Of(namespace, name); ok && trace.UID == uid && r.Node == "" {
		r.Message = trace.Message
	}
	return r, nil
}

func present(ctx context.Context, p schedule.Present, o Options) (*Report, error) {
	if p.Pod == nil {
		return nil, ErrNoPod
	}
	deciding := p.Set.For(p.Pod)
	if deciding == nil {
		return nil, fmt.Errorf("%w: %q", ErrNoProfile, p.Pod.Object.Spec.SchedulerName)
	}
	r := &Report{State: p.State, Node: p.Node, Profile: deciding.Name, Set: p.Set.Number, Derived: "present"}
	log := p.Log
	if p.Node != "" {
		log = without(log, p.Pod, p.Node)
	}
	// The caller's impatience must not break a live policy in the middle of a call.
	t, err := cycle.Judge(context.WithoutCancel(ctx), deciding, p.Reasons, p.Log, p.Pod, p.Now)
	if err != nil {
		return nil, err
	}
	r.fill(t, p.Reasons, log, hostColumn(t, log, p.Pod, p.Nominated, nil), o)
	return r, r.mustHave(o)
}

// without shows the host's own sums as if the pod did not count where it is.
func without(log snapshot.Log, pod *snapshot.Pod, node string) snapshot.Log {
	return &lacking{Log: log, pod: pod, node: node}
}

type lacking struct {
	snapshot.Log
	pod  *snapshot.Pod
	node string
}

// Row implements snapshot.Log.
func (l *lacking) Row(slot int32) *snapshot.Row {
	row := l.Log.Row(slot)
	if row == nil || row.Node.Name != l.node {
		return row
	}
	return row.Without(l.pod)
}

func (r *Report) mustHave(o Options) error {
	if o.Node != "" && len(r.Rows) == 0 {
		return fmt.Errorf("%w: %s", ErrNoNode, o.Node)
	}
	return nil
}

// fromTrace derives a past decision again, with policies opened for it.
func fromTrace(ctx context.Context, s *schedule.Scheduler, trace schedule.Trace, state string, o Options) (*Report, error) {
	view, set, err := before(ctx, s, &trace)
	if err != nil {
		return nil, fmt.Errorf("explain %s/%s: %w", trace.Namespace, trace.Name, err)
	}
	d, err := derive(ctx, set, s.Reasons(), &trace, view)
	if err != nil {
		return nil, fmt.Errorf("explain %s/%s: %w", trace.Namespace, trace.Name, err)
	}
	r := &Report{
		Namespace: trace.Namespace, Pod: trace.Name, UID: trace.UID, State: state, Node: trace.Node, Message: trace.Message,
		Profile: trace.Digest.Profile, Set: trace.Set, Derived: "decision", Note: withFailures(d.note, trace.Failures),
		Decision: &Decision{
			Number: trace.Number, At: time.Unix(0, trace.Now).UTC(), Took: trace.Took, Position: trace.Position,
			Seed: trace.Seed, Tied: trace.Tied, Same: d.same,
		},
	}
	r.preempting(s, trace.UID)
	r.fill(d.table, s.Reasons(), d.log, d.host, o)
	return r, r.mustHave(o)
}

// withFailures adds to a note which policies failed in a decision. The scores that
// are shown are derived again, by guests that may answer now: a priority that
// failed then counted for nothing, and this alone tells.
func withFailures(note string, failures []schedule.Failure) string {
	var names []string
	for _, f := range failures {
		if !slices.Contains(names, f.Policy) {
			names = append(names, f.Policy)
		}
	}
	if len(names) == 0 {
		return note
	}
	failed := "in this decision these policies failed, and had no part in it: " + strings.Join(names, ", ")
	if note == "" {
		return failed
	}
	return note + "; " + failed
}

// derived is a decision made again, with all that its policies say.
type derived struct {
	table *cycle.Table
	log   snapshot.Log
	host  map[int]string
	same  bool
	note  string
}

// before is the state that a decision was made from, and what is live now.
func before(ctx context.Context, s *schedule.Scheduler, trace *schedule.Trace) (*snapshot.View, *framework.LiveSet, error) {
	view, ok, err := s.At(ctx, trace.Position)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, ErrOutside
	}
	_, set, err := s.Now(ctx)
	return view, set, err
}

// derive makes a decision again from the state that it was made from, and has
// all policies say what they say of all nodes.
func derive(ctx context.Context, set *framework.LiveSet, reasons *framework.Reasons, trace *schedule.Trace, view *snapshot.View) (*derived, error) {
	deciding, note, release, err := reopen(ctx, set, trace)
	if err != nil {
		return nil, err
	}
	defer release()
	d := &derived{log: view, note: note}
	if d.table, err = cycle.Judge(ctx, deciding, reasons, view, trace.Pod, trace.Now); err != nil {
		return nil, err
	}
	d.host = hostColumn(d.table, view, trace.Pod, trace.Nominated, trace.Excluded)
	if slot := pick(d.table, d.host, trace.Seed); slot >= 0 {
		d.same = view.Row(slot).Node.Name == trace.Node
	}
	if d.same {
		return d, nil
	}
	// What the table does not show, a policy's failure or a pod for which room is
	// kept, has had its part in it.
	is, err := schedule.Redo(ctx, deciding, reasons, view, trace)
	d.same = err == nil && len(schedule.Differences(trace, &is)) == 0
	return d, err
}

// reopen opens the policies that made a decision, or those of today where
// they cannot be had any more; note says so.
func reopen(ctx context.Context, set *framework.LiveSet, trace *schedule.Trace) (p *framework.Profile, note string, release func(), err error) {
	lost := errors.New("what they were is not kept")
	if set.OpenDigest != nil {
		if p, release, lost = set.OpenDigest(ctx, trace.Digest); lost == nil {
			return p, "", release, nil
		}
	}
	if set.Reopen == nil {
		return nil, "", nil, errors.New("the live policies cannot be opened a second time")
	}
	fresh, release, err := set.Reopen(ctx)
	if err != nil {
		return nil, "", nil, fmt.Errorf("open the policies again: %w", err)
	}
	if p = fresh.For(trace.Pod); p == nil {
		release()
		return nil, "", nil, fmt.Errorf("%w: %q", ErrNoProfile, trace.Pod.Object.Spec.SchedulerName)
	}
	if !sameDigest(p.Digest(), trace.Digest) {
		note = fmt.Sprintf("set %d decided, and its policies cannot be had any more (%v): this is what those of set %d say", trace.Set, lost, set.Number)
	}
	return p, note, release, nil
}

func sameDigest(a, b *framework.Digest) bool {
	if a.Profile != b.Profile || len(a.Policies) != len(b.Policies) {
		return false
	}
	for i := range a.Policies {
		if a.Policies[i] != b.Policies[i] {
			return false
		}
	}
	return true
}

func pick(t *cycle.Table, host map[int]string, seed uint64) int32 {
	for i := range host {
		t.Feasible[i] = false
	}
	return t.Pick(seed)
}

// Replayed is a decision made again.
type Replayed struct {
	// Trace is what was decided, Again what comes out this time.
	Trace, Again schedule.Trace
	// Same says that nothing differs, Differs tells what does.
	Same    bool
	Differs []string
	// Note says what limits the comparison.
	Note string
}

// Room is what the decision made by preemption, and what it makes this time; nil
// is none.
func (r *Replayed) Room() (was, is *Room) { return roomOf(&r.Trace), roomOf(&r.Again) }

// OutsideError is ErrOutside with what the log holds: decisions from Oldest on,
// up to Next, which has not been made yet.
type OutsideError struct{ Number, Oldest, Next uint64 }

// Error says what the log holds, and what to do.
func (e *OutsideError) Error() string {
	if e.Number >= e.Next {
		return fmt.Sprintf("decision %d has not been made: the next will be %d", e.Number, e.Next)
	}
	kept := fmt.Sprintf("the oldest kept is %d", e.Oldest)
	if e.Oldest == e.Next {
		kept = "none is kept"
	}
	return fmt.Sprintf("decision %d lies outside the log: %s; start the host with --record DIR to keep all, or with a larger --log-memory", e.Number, kept)
}

// Unwrap makes it an ErrOutside.
func (e *OutsideError) Unwrap() error { return ErrOutside }

// outside says what the log holds.
func outside(ctx context.Context, s *schedule.Scheduler, number uint64) error {
	oldest, next, err := s.Held(ctx)
	if err != nil {
		return err
	}
	return &OutsideError{Number: number, Oldest: oldest, Next: next}
}

// Replay derives the decision with a number again. One that lies outside the
// log is an OutsideError.
func Replay(ctx context.Context, s *schedule.Scheduler, number uint64) (*Replayed, error) {
	trace, ok := s.Traces().Get(number)
	if !ok {
		return nil, outside(ctx, s, number)
	}
	view, set, err := before(ctx, s, &trace)
	if errors.Is(err, ErrOutside) {
		return nil, outside(ctx, s, number)
	}
	if err != nil {
		return nil, fmt.Errorf("replay %d: %w", number, err)
	}
	return redo(ctx, set, s.Reasons(), &trace, view)
}

// Again derives a recorded decision from the recorded state.
func Again(ctx context.Context, s *schedule.Scheduler, trace schedule.Trace, view *snapshot.View) (*Replayed, error) {
	_, set, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	return redo(ctx, set, s.Reasons(), &trace, view)
}

const victimsUnknown = "it was recorded by a version that did not keep whom it preempted, so that is not compared"

// redo makes a decision again from the state that it was made from.
func redo(ctx context.Context, set *framework.LiveSet, reasons *framework.Reasons, trace *schedule.Trace, view *snapshot.View) (*Replayed, error) {
	deciding, note, release, err := reopen(ctx, set, trace)
	if err != nil {
		return nil, fmt.Errorf("replay %d: %w", trace.Number, err)
	}
	defer release()
	is, err := schedule.Redo(ctx, deciding, reasons, view, trace)
	if err != nil {
		return nil, fmt.Errorf("replay %d: %w", trace.Number, err)
	}
	r := &Replayed{Trace: *trace, Again: is, Note: note, Differs: schedule.Differences(trace, &is)}
	r.Same = len(r.Differs) == 0
	if trace.Made != "" && trace.Preemption == nil && note == "" {
		r.Note = victimsUnknown
	}
	return r, nil
}
