package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	"golang.org/x/sync/errgroup"
)

// Config says what a scheduler is made of. Source, Set and Binder are needed.
type Config struct {
	Source Source
	// Set returns the live set; it is asked once before each cycle.
	Set    func() *framework.LiveSet
	Binder Binder
	// Swapped is told when Set gives another one, lest pods that wait sleep on;
	// nil where that never happens.
	Swapped <-chan struct{}
	// Recorder tells users of events; nil tells nobody.
	Recorder Recorder
	// Reasons is the table that the policies intern their reasons in.
	Reasons *framework.Reasons
	Logger  *slog.Logger
	Clock   func() time.Time
	// Seed makes the choices among equals; the same inputs give the same decisions.
	Seed uint64
	// OnDivergence hears of policies whose remembered answers proved wrong, Failed of
	// those that failed. Both are called between policy calls and must be quick.
	OnDivergence func(Divergence)
	Failed       func(policy string, err error)
	// Decided hears of each decision, from the cycle's goroutine, and must be quick;
	// may be nil.
	Decided func(outcome Outcome, took time.Duration)
	// Rest is called, from the cycle's goroutine, when nothing has happened for
	// a while after some decisions, and now and then though there is: policies
	// tidy up there. It does a little at a time and says whether more is left.
	// May be nil.
	Rest func(ctx context.Context) (more bool)
	// LogBytes is about what may be taken by the changes and traces from which
	// decisions can be derived again, 256 MiB by default.
	LogBytes int
	// MemoryBytes bounds remembered answers, 256 MiB by default.
	MemoryBytes int64
	// FirstDecision is the number of the first decision.
	FirstDecision uint64
	// Record is given, between two cycles, the present state with its log, and
	// the decisions since it was last called. May be nil.
	Record func(context.Context, snapshot.Log, []Trace)
	// BatchPods is how many pods one commit binds at most, 512 by default.
	BatchPods int
}

// Divergence is what Config.OnDivergence hears.
type Divergence = cycle.Divergence

func (c Config) withDefaults() Config {
	if c.Reasons == nil {
		c.Reasons = framework.NewReasons(0)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.LogBytes <= 0 {
		c.LogBytes = 256 << 20
	}
	if c.BatchPods <= 0 {
		c.BatchPods = 512
	}
	return c
}

// Scheduler runs the core: it reads events, gives it the time, and has written
// what it decides.
//
// It is large because its files are what goes in and out beside the core:
// events, time, writes, questions, figures and traces.
type Scheduler struct {
	config Config
	core   *core

	events chan batch
	asks   chan func(*core)
	done   chan results
	// ended is closed when Run has returned.
	ended chan struct{}
	// writing tells which kinds of writes are under way.
	writing [writers]bool
	inbox   [writers]chan job
	stats   stats
	// recorded is the number of the next decision to record.
	recorded uint64
}

// batch is what the source told at once.
type batch struct {
	events []Event
	synced bool
}

// Kinds of writes; each has a goroutine of its own.
const (
	bindings = iota
	conditions
	evictions
	provisions
	writers
)

// job is what one writer gets at a time.
type job struct {
	bindings   []Binding
	conditions []Condition
	evictions  []Eviction
	provisions []Provision
}

// results is how a job ended.
type results struct {
	kind int
	job
	errs []error
}

// ErrNotRunning is the answer to questions before Run and after it.
var ErrNotRunning = errors.New("the scheduler is not running")

// New returns a scheduler that has not begun.
func New(c Config) (*Scheduler, error) {
	if c.Source == nil || c.Set == nil || c.Binder == nil {
		return nil, errors.New("a scheduler needs a Source, a Set and a Binder")
	}
	c = c.withDefaults()
	s := &Scheduler{
		config: c,
		core:   newCore(c),
		events: make(chan batch, 16),
		asks:   make(chan func(*core)),
		done:   make(chan results, writers),
		ended:  make(chan struct{}),
	}
	for i := range s.inbox {
		s.inbox[i] = make(chan job, 1)
	}
	return s, nil
}

// Traces returns the newest decisions.
func (s *Scheduler) Traces() *Traces { return s.core.traces }

// Reasons returns the table of reasons.
func (s *Scheduler) Reasons() *framework.Reasons { return s.config.Reasons }

// Run schedules until ctx ends or the source fails. It is called once.
func (s *Scheduler) Run(ctx context.Context) error {
	defer close(s.ended)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.read(ctx) })
	for kind := range writers {
		g.Go(func() error { return s.write(ctx, kind) })
	}
	g.Go(func() error { return s.loop(ctx) })
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// read hands the source's events to the loop.
func (s *Scheduler) read(ctx context.Context) error {
	for {
		events, synced, err := s.config.Source.Next(ctx)
		if err != nil {
			return fmt.Errorf("follow the cluster: %w", err)
		}
		select {
		case s.events <- batch{events: events, synced: synced}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write does one kind of writes, one job at a time.
func (s *Scheduler) write(ctx context.Context, kind int) error {
	for {
		select {
		case j := <-s.inbox[kind]:
			r := results{kind: kind, job: j}
			switch kind {
			case bindings:
				r.errs = s.config.Binder.Bind(ctx, j.bindings)
			case conditions:
				r.errs = s.config.Binder.Condition(ctx, j.conditions)
			case evictions:
				r.errs = s.config.Binder.Evict(ctx, j.evictions)
			case provisions:
				r.errs = s.config.Binder.Provision(ctx, j.provisions)
			}
			s.done <- r
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stepsAtOnce bounds the cycles between two looks at what else there is to do.
const stepsAtOnce = 32

// restAfter is after how many cycles policies may tidy up though there is more
// to decide: one that never may grows till its budget does not suffice.
const restAfter = 512

// restQuiet is how long nothing must have happened before they do so of
// themselves. On a busy host nothing is ready for a moment after each batch that
// comes, and to collect one guest's garbage burns the fuel of 200 decisions.
const restQuiet = 50 * time.Millisecond

// maxAssumed bounds the binds under way.
const maxAssumed = 1 << 14

// loop owns the core.
func (s *Scheduler) loop(ctx context.Context) error {
	if err := s.sync(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	worked := false // since the last rest
	quiet := false  // nothing came for as long as the timer ran
	rested := uint64(0)
	s.record(ctx)
	for {
		busy := s.drain(ctx)
		if s.decide(ctx) {
			busy = true
		}
		s.record(ctx)
		s.flush()
		s.publish()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if busy {
			worked, quiet = true, false
			if n := s.stats.cycles.Load(); n-rested >= restAfter && s.config.Rest != nil {
				rested = n
				s.config.Rest(ctx)
			}
			continue
		}
		worked = worked && s.config.Rest != nil
		if worked && quiet {
			if worked = s.config.Rest(ctx); worked {
				continue
			}
		}
		until := s.untilNext()
		if worked {
			until = min(until, restQuiet)
		}
		timer.Reset(until)
		woken, asked, err := s.wait(ctx, timer.C)
		if err != nil {
			return err
		}
		worked, quiet = worked || asked, !woken
	}
}

// decide takes some steps of the core, and says whether there was any to take.
func (s *Scheduler) decide(ctx context.Context) (any bool) {
	for range stepsAtOnce {
		if len(s.core.assumed) >= maxAssumed || !s.core.step(ctx) {
			break
		}
		any = true
		s.stats.cycles.Add(1)
	}
	return any
}

// record tells of what was decided before any of it is written elsewhere.
func (s *Scheduler) record(ctx context.Context) {
	if s.config.Record == nil {
		return
	}
	traces := s.core.traces.after(s.recorded)
	if n := len(traces); n > 0 {
		s.recorded = traces[n-1].Number + 1
	}
	s.config.Record(ctx, s.core.cluster, traces)
}

// sync waits until the source has told all that existed.
func (s *Scheduler) sync(ctx context.Context) error {
	for {
		select {
		case b := <-s.events:
			s.core.apply(b.events, s.now())
			if b.synced {
				// Nothing was decided yet: how it came to be is nobody's past.
				s.core.cluster.ForgetAll()
				return nil
			}
		case ask := <-s.asks:
			ask(s.core)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain takes in what has come without waiting. It is recorded bit by bit: all
// of it may be more than the log's newest end holds.
func (s *Scheduler) drain(ctx context.Context) (any bool) {
	for range 64 {
		select {
		case b := <-s.events:
			s.core.apply(b.events, s.now())
			s.record(ctx)
		case r := <-s.done:
			s.finish(r)
		case ask := <-s.asks:
			ask(s.core)
		default:
			return any
		}
		any = true
	}
	return any
}

// wait sleeps until there is something to do, or the timer ends. woken says that
// it was not the timer; asked that it was a question, for which policies may
// have worked as they do for a decision.
func (s *Scheduler) wait(ctx context.Context, timer <-chan time.Time) (woken, asked bool, err error) {
	select {
	case b := <-s.events:
		s.core.apply(b.events, s.now())
	case r := <-s.done:
		s.finish(r)
	case ask := <-s.asks:
		ask(s.core)
		return true, true, nil
	case <-s.config.Swapped:
	case <-timer:
		return false, false, nil
	case <-ctx.Done():
		return false, false, ctx.Err()
	}
	return true, false, nil
}

func (s *Scheduler) now() int64 { return s.config.Clock().UnixNano() }

// untilNext is how long nothing will happen by time alone.
func (s *Scheduler) untilNext() time.Duration {
	at, ok := s.core.queue.Next()
	if !ok {
		return time.Hour
	}
	return max(time.Duration(at-s.now()), time.Millisecond)
}

// flush gives the writers that are free what there is to write.
func (s *Scheduler) flush() {
	out := &s.core.out
	if !s.writing[bindings] && len(out.bindings) > 0 {
		if list := s.core.takeBindings(s.config.BatchPods, s.now()); len(list) > 0 {
			s.start(bindings, job{bindings: list})
		}
	}
	if !s.writing[conditions] && len(out.conditions) > 0 {
		s.start(conditions, job{conditions: newestOf(out.conditions)})
		out.conditions = nil
	}
	if !s.writing[evictions] && len(out.evictions) > 0 {
		s.start(evictions, job{evictions: out.evictions})
		out.evictions = nil
	}
	if !s.writing[provisions] && len(out.provisions) > 0 {
		s.start(provisions, job{provisions: out.provisions})
		out.provisions = nil
	}
	for _, n := range out.notices {
		if s.config.Recorder != nil {
			s.config.Recorder.Event(n.pod, n.kind, n.reason, n.message)
		}
	}
	out.notices = out.notices[:0]
}

func (s *Scheduler) start(kind int, j job) {
	s.writing[kind] = true
	s.inbox[kind] <- j
}

// newestOf keeps the last condition of each pod.
func newestOf(list []Condition) []Condition {
	last := make(map[any]int, len(list))
	for i := range list {
		last[list[i].Pod.UID] = i
	}
	kept := list[:0]
	for i := range list {
		if last[list[i].Pod.UID] == i {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// finish takes in how a job ended.
func (s *Scheduler) finish(r results) {
	s.writing[r.kind] = false
	now := s.now()
	for i, err := range r.errs {
		switch r.kind {
		case bindings:
			s.finishBind(&r.bindings[i], err, now)
		case evictions:
			if err != nil {
				s.core.evictFailed(&r.evictions[i], now)
				s.config.Logger.Warn("evict", "pod", r.evictions[i].Victim.Namespace+"/"+r.evictions[i].Victim.Name, "err", err)
			}
		default:
			if err != nil {
				s.config.Logger.Debug("write", "kind", r.kind, "err", err)
				if r.kind == conditions {
					s.core.conditionFailed(r.conditions[i].Pod)
				} else {
					s.core.provisionFailed(r.provisions[i].Pod, now)
				}
			}
		}
	}
}

func (s *Scheduler) finishBind(b *Binding, err error, now int64) {
	s.core.bound(b.Pod.UID, err, now)
	if err != nil {
		s.stats.bindErrors.Add(1)
		s.config.Logger.Info("bind", "pod", b.Pod.Namespace+"/"+b.Pod.Name, "node", b.Node, "err", err)
		return
	}
	s.stats.bound.Add(1)
	if s.config.Recorder != nil {
		s.config.Recorder.Event(b.Pod, "Normal", "Scheduled", fmt.Sprintf("Successfully assigned %s/%s to %s", b.Pod.Namespace, b.Pod.Name, b.Node))
	}
}

// ask runs fn between two cycles, with the core to itself.
func (s *Scheduler) ask(ctx context.Context, fn func(*core)) error {
	ready := make(chan struct{})
	wrapped := func(c *core) { defer close(ready); fn(c) }
	select {
	case s.asks <- wrapped:
	case <-s.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotRunning, ctx.Err())
	}
	<-ready
	return nil
}

// Present is what an inspection of the present state sees, between two cycles.
type Present struct {
	Log     snapshot.Log
	Set     *framework.LiveSet
	Reasons *framework.Reasons
	// Pod is the pod asked about, as it waits or runs; nil if there is none.
	Pod *snapshot.Pod
	// Node is where it counts; empty while it waits.
	Node string
	// State is where in the queue it is.
	State     string
	Nominated map[int32][]*snapshot.Pod
	Now       int64
}

// Inspect calls fn between two cycles with the present state and the live
// policies, which it may ask. fn holds up all scheduling: it must be quick.
func (s *Scheduler) Inspect(ctx context.Context, namespace, name string, fn func(Present)) error {
	return s.ask(ctx, func(c *core) {
		p := Present{Log: c.cluster, Set: c.set(), Reasons: c.reasons, Now: s.now()}
		c.find(namespace, name, &p)
		if p.Pod != nil {
			p.Nominated = c.cluster.Nominated(p.Pod)
		}
		fn(p)
	})
}

// At returns the cluster as it was at a position of the log; ok is false where
// that lies too far back.
func (s *Scheduler) At(ctx context.Context, position uint64) (view *snapshot.View, ok bool, err error) {
	var moment *snapshot.Moment
	if err := s.ask(ctx, func(c *core) { moment = c.cluster.Moment() }); err != nil {
		return nil, false, err
	}
	view, ok = moment.At(position)
	return view, ok, nil
}

// Tape returns the cluster as it was at a position of the log, or as soon after
// it as the log reaches back, and all that has changed since.
func (s *Scheduler) Tape(ctx context.Context, position uint64) (tape *snapshot.Tape, err error) {
	var moment *snapshot.Moment
	if err := s.ask(ctx, func(c *core) { moment = c.cluster.Moment() }); err != nil {
		return nil, err
	}
	return moment.Tape(position), nil
}

// Held are the numbers of the oldest decision that can be derived again from the
// log, and of the next that will be made.
func (s *Scheduler) Held(ctx context.Context) (oldest, next uint64, err error) {
	var from uint64
	if err := s.ask(ctx, func(c *core) { from = c.cluster.Oldest() }); err != nil {
		return 0, 0, err
	}
	_, next = s.core.traces.Range()
	return s.core.traces.From(from), next, nil
}

// Now returns the present state for use beside the running scheduler.
func (s *Scheduler) Now(ctx context.Context) (view *snapshot.View, set *framework.LiveSet, err error) {
	err = s.ask(ctx, func(c *core) { view = c.cluster.Now(); set = c.set() })
	return view, set, err
}
