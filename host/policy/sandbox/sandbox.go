package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Sandbox is one instance of a program that follows a snapshot. It belongs to
// one goroutine; an instance that fails is thrown away, and the next cycle
// builds another from the snapshot.
//
// It is large because all its methods are steps of one goroutine's talk with one
// instance: to follow, to ask in pieces, to fail, to be built anew.
type Sandbox struct {
	*Program
	instance *engine.Instance
	// held is instance too, for retire, which any goroutine may call.
	held    atomic.Pointer[engine.Instance]
	retired atomic.Bool
	claim

	encoder *wire.Encoder
	told    told // of rows, where it is told on demand
	// asked are the guest's places of the rows of the question under way, if prepared,
	// and askedOf the host's.
	asked    []int32
	askedOf  []int32
	prepared bool
	news     []snapshot.Delta // scratch: of which rows it has to be told
	seen     uint64           // newest delta of the log that was looked at
	sent     uint64           // sequence of the last batch that the guest was given
	ids      []framework.ReasonID
	about    subject
	slots    int // that it was told of when the log was last followed, or the most objects that it was asked about
	calls    int // since the guest last tidied up
	wear     wear
	depends  depends
	meter
}

// New is a sandbox of a program, which opens when it is first used.
func New(p *Program) *Sandbox { return &Sandbox{Program: p, encoder: wire.NewEncoder()} }

// Info implements framework.Policy.
func (s *Sandbox) Info() *framework.Info { return &s.info }

// Close gives the guest's memory back; the sandbox opens anew when it is used.
func (s *Sandbox) Close() {
	if s.instance != nil {
		s.instance.Close()
		s.instance = nil
		s.held.Store(nil)
	}
}

// Retire ends the sandbox for good: now, or with the call that is under way.
func (s *Sandbox) Retire() {
	s.retired.Store(true)
	if i := s.held.Load(); i != nil {
		i.Close()
	}
}

// IsOpen says whether it has an instance.
func (s *Sandbox) IsOpen() bool { return s.instance != nil }

// errQuarantined is what a policy answers that failed too often.
var errQuarantined = errors.New("the policy is quarantined, since it kept failing")

// Follow brings the guest up to the log's newest delta.
func (s *Sandbox) Follow(ctx context.Context, log snapshot.Log) error {
	s.slots, s.about = s.size(log), subject{rows: log}
	s.notice()
	if s.instance != nil && s.outgrown() {
		s.Close()
	}
	if s.toldOnDemand() {
		return s.followRows(ctx, log)
	}
	if s.instance != nil {
		if log.Seq() == s.seen {
			return nil
		}
		if deltas, ok := log.Since(s.seen); ok {
			s.seen = log.Seq()
			err := s.take(deltas)
			if !errors.Is(err, errWorn) {
				return err
			}
		}
		s.Close()
	}
	return s.rebuild(ctx, log)
}

// followRows takes down which rows have changed: the guest is told of them when it
// is asked.
func (s *Sandbox) followRows(ctx context.Context, log snapshot.Log) error {
	if s.instance == nil {
		if err := s.ready(ctx); err != nil {
			return err
		}
		s.told.reset()
		s.prepared = false
		s.wear.young = s.instance.MemoryBytes()
	} else if log.Seq() != s.seen {
		deltas, known := log.Since(s.seen)
		s.told.follow(deltas, known, s.info.Reads)
	}
	s.seen = log.Seq()
	return nil
}

// ready opens an instance unless there is one.
func (s *Sandbox) ready(ctx context.Context) error {
	if !s.health.allow(time.Now()) {
		s.Close()
		return fmt.Errorf("policy %s: %w", s.name, errQuarantined)
	}
	if s.notice(); s.instance != nil {
		return nil
	}
	if !s.mayAsk() {
		return fmt.Errorf("policy %s: %w", s.name, ErrMemoryReclaimed)
	}
	i, err := s.Open(ctx, s.Priority())
	if errors.Is(err, engine.ErrClosed) || err != nil && ctx.Err() != nil {
		return fmt.Errorf("policy %s: %w", s.name, err)
	}
	if err != nil {
		return s.fail(err)
	}
	s.held.Store(i)
	i.SetMemoryPriority(s.Priority())
	if s.retired.Load() {
		i.Close()
		return fmt.Errorf("policy %s: %w", s.name, engine.ErrClosed)
	}
	s.encoder.Begin(s.entry.ReplicasEqual)
	s.instance, s.sent, s.ids, s.wear = i, 0, append(s.ids[:0], 0), wear{}
	s.depends = depends{}
	return nil
}

// rebuild opens an instance and gives it the whole present state.
func (s *Sandbox) rebuild(ctx context.Context, log snapshot.Log) error {
	err := s.ready(ctx)
	if err != nil {
		return err
	}
	s.seen = log.Seq()
	s.encoder.Expect(log.Slots())
	batch := make([]snapshot.Delta, 0, wire.MaxBatch)
	log.Base(func(d snapshot.Delta) bool {
		d.Seq = s.seen
		if batch = append(batch, d); len(batch) < wire.MaxBatch {
			return true
		}
		err = s.apply(batch)
		batch = batch[:0]
		return err == nil
	})
	if err == nil {
		err = s.apply(batch)
	}
	if err != nil {
		return err
	}
	// Whatever it answers, it was built anew just now.
	s.wear = wear{young: s.instance.MemoryBytes()}
	return s.collect()
}

// take tells the guest what changed.
func (s *Sandbox) take(deltas snapshot.Deltas) error {
	for piece := range deltas.Pieces() {
		if err := s.apply(piece); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) apply(deltas []snapshot.Delta) error {
	for len(deltas) > 0 {
		n := min(len(deltas), wire.MaxBatch)
		batch, seq := s.encoder.Deltas(deltas[:n], s.info.Reads)
		deltas = deltas[n:]
		if batch == nil {
			continue
		}
		if _, err := s.call(engine.FuncApply, batch, engine.ApplyBudget(n, len(batch), s.instance.MemoryBytes(), s.slots)); err != nil {
			return err
		}
		s.sent = seq
	}
	return nil
}

// Pod implements framework.Policy.
func (s *Sandbox) Pod(ctx context.Context, log snapshot.Log, pod *snapshot.Pod, now int64) (framework.Answer, error) {
	if err := s.Follow(ctx, log); err != nil {
		return framework.Answer{}, err
	}
	s.about.pod, s.about.now = pod, now
	return s.pod(ctx)
}

// pod tells the guest of the pod that the cycle is about.
func (s *Sandbox) pod(ctx context.Context) (framework.Answer, error) {
	log, pod, now := s.about.rows, s.about.pod, s.about.now
	in := s.encoder.Pod(s.sent, now, pod, s.info.Reads)
	r, err := s.call(engine.FuncPod, in, s.podBudget(int(log.Slots()), len(in)))
	if errors.Is(err, errWorn) {
		return s.Pod(ctx, log, pod, now)
	}
	if err != nil {
		return framework.Answer{}, err
	}
	answer, err := abi.ReadPodAnswer(r.Packed)
	if errors.Is(err, abi.ErrGuest) {
		err = fmt.Errorf("%s: %s", engine.FuncPod, complaint(s.instance))
	}
	if err != nil {
		return framework.Answer{}, s.fail(err)
	}
	if answer.Ask != abi.AskRefuse {
		return framework.Answer{Ask: answer.Ask}, nil
	}
	reason, err := s.reason(answer.Reason)
	if err != nil {
		return framework.Answer{}, err
	}
	words, err := s.words()
	if errors.Is(err, errWorn) {
		return s.Pod(ctx, log, pod, now)
	}
	return framework.Answer{Ask: answer.Ask, Reason: reason, Words: words}, err
}

// words are why the guest refused the pod as such, where it says more than the
// entry of its table. One that does not know the question has no more to say.
func (s *Sandbox) words() (string, error) {
	if !s.module.Has(engine.FuncExplain) {
		return "", nil
	}
	memory := s.instance.MemoryBytes()
	r, err := s.instance.Call(engine.FuncExplain, nil, engine.Budget(0, 0, memory, s.most))
	s.spend(engine.FuncExplain, r, err, memory, s.slots)
	switch {
	case err != nil && s.worn(err):
		s.Close()
		return "", errWorn
	case err != nil:
		return "", s.fail(err)
	case r.Status != abi.StatusOK:
		return "", nil
	}
	reasons, err := abi.ReadReasons(r.Out)
	if err != nil {
		return "", s.fail(err)
	}
	if len(reasons) == 0 {
		return "", nil
	}
	return reasons[0].Text, nil
}

// largePod is the size from which on a pod's record gets more fuel by the byte:
// a guest's collector runs again and again while it takes in thousands of terms.
// To let it fail would let one absurd pod end a policy for all others.
const (
	largePod              = 16 << 10
	largeByte engine.Fuel = 1000
)

// podBudget is larger for a policy of scope set, and for any that was told the
// cluster not long ago. It may have to index all rows by a key that this pod is the
// first to name, or to make its columns, and to double its memory and to collect
// garbage meanwhile, as when it is told of rows. To trap it there and tell it the
// whole cluster again would end the same way each time.
func (s *Sandbox) podBudget(rows, size int) engine.Fuel {
	if size > largePod {
		return engine.ApplyBudget(rows, size, s.instance.MemoryBytes(), s.slots) + largeByte*engine.Fuel(size)
	}
	if s.info.Scope == abi.ScopeRow && s.wear.long() {
		return engine.Budget(rows, size, s.instance.MemoryBytes(), s.most)
	}
	return engine.ApplyBudget(rows, size, s.instance.MemoryBytes(), s.slots)
}

// reason turns the guest's number of a reason into the host's.
func (s *Sandbox) reason(index uint32) (framework.ReasonID, error) {
	if int(index) < len(s.ids) {
		return s.ids[index], nil
	}
	r, err := s.instance.CallNumber(engine.FuncReasons, uint32(len(s.ids)), s.most)
	if err != nil {
		return 0, s.fail(err)
	}
	reasons, err := abi.ReadReasons(r.Out)
	if err != nil {
		return 0, s.fail(err)
	}
	for _, reason := range reasons {
		s.ids = append(s.ids, s.reasons.Intern(framework.Reason{Policy: s.name, Text: reason.Text, Resolvable: !reason.Final}))
	}
	if int(index) >= len(s.ids) {
		return 0, s.fail(fmt.Errorf("a verdict names reason %d of a table of %d", index, len(s.ids)))
	}
	return s.ids[index], nil
}

// rowsACall is how many of n rows one call is asked about: of a policy of scope
// row as many as stay within its budget, of one of scope set all.
func (s *Sandbox) rowsACall(n int) int {
	if s.info.Scope != abi.ScopeRow || s.instance == nil {
		return n
	}
	memory := s.instance.MemoryBytes()
	return min(n, engine.RowsACall(memory, s.most), s.pace.rows(engine.Most(s.most, memory)))
}

// rowsBudget is larger for a policy of scope set, which must be given all rows
// at once and may collect garbage between two of them.
func (s *Sandbox) rowsBudget(rows, size int) engine.Fuel {
	if s.info.Scope == abi.ScopeRow {
		return engine.Budget(rows, size, s.instance.MemoryBytes(), s.most)
	}
	return engine.ApplyBudget(rows, size, s.instance.MemoryBytes(), s.slots)
}

// Filter implements framework.Predicate.
func (s *Sandbox) Filter(ctx context.Context, rows []int32, verdicts []framework.ReasonID) error {
	s.prepared = false
	return s.pieces(ctx, engine.FuncFilter, len(rows), func(from, to int) (engine.Fuel, error) {
		return s.filter(ctx, rows, from, verdicts[from:to])
	})
}

var errNotOpen = errors.New("the policy failed earlier in this cycle")

func (s *Sandbox) filter(ctx context.Context, rows []int32, from int, verdicts []framework.ReasonID) (engine.Fuel, error) {
	r, err := s.ask(ctx, engine.FuncFilter, rows, from, from+len(verdicts))
	if err != nil {
		return 0, err
	}
	if err := s.verdicts(engine.FuncFilter, r.Out, verdicts); err != nil {
		return 0, err
	}
	s.health.judged(len(verdicts), refused(verdicts))
	return r.Fuel, nil
}

// ask calls an export about the rows from one place of a question to another.
func (s *Sandbox) ask(ctx context.Context, f engine.Func, rows []int32, from, to int) (engine.Result, error) {
	if s.instance == nil {
		return engine.Result{}, errNotOpen
	}
	in, err := s.input(ctx, rows, from, to)
	if err != nil {
		return engine.Result{}, err
	}
	rows = rows[from:to]
	r, err := s.try(f, in, s.rowsBudget(len(rows), len(in)))
	if err == nil {
		return r, nil
	}
	if less := s.smaller(err, len(rows)); less != nil {
		return r, less
	}
	if s.info.Scope == abi.ScopeRow {
		err = raisable(err)
	}
	return r, s.failAt(err, s.rowOf(ctx, f, rows, err))
}

func refused(verdicts []framework.ReasonID) (n int) {
	for _, v := range verdicts {
		if v != 0 {
			n++
		}
	}
	return n
}

// verdicts reads one byte a row.
func (s *Sandbox) verdicts(f engine.Func, out []byte, verdicts []framework.ReasonID) error {
	out, err := abi.ReadVerdicts(out, len(verdicts))
	if err != nil {
		return s.fail(fmt.Errorf("%s: %w", f, err))
	}
	for i, b := range out {
		if int(b) < len(s.ids) {
			verdicts[i] = s.ids[b]
			continue
		}
		// Asking for the reason ends the answer's life, so the rest is kept.
		rest := append([]byte(nil), out[i:]...)
		if _, err := s.reason(uint32(b)); err != nil {
			return err
		}
		return s.verdicts(f, rest, verdicts[i:])
	}
	return nil
}

// Score implements framework.Priority.
func (s *Sandbox) Score(ctx context.Context, rows []int32, raw []int64) error {
	s.prepared = false
	return s.pieces(ctx, engine.FuncScore, len(rows), func(from, to int) (engine.Fuel, error) {
		return s.score(ctx, rows, from, raw[from:to])
	})
}

func (s *Sandbox) score(ctx context.Context, rows []int32, from int, raw []int64) (engine.Fuel, error) {
	r, err := s.ask(ctx, engine.FuncScore, rows, from, from+len(raw))
	if err != nil {
		return 0, err
	}
	if err := abi.ReadScores(r.Out, raw); err != nil {
		return 0, s.fail(err)
	}
	s.health.judged(len(raw), 0)
	return r.Fuel, nil
}

// questionsACall is how many what-if questions one call carries.
const questionsACall = 64

// WhatIf implements framework.WhatIfer.
func (s *Sandbox) WhatIf(ctx context.Context, questions []framework.WhatIf, verdicts []framework.ReasonID) error {
	for len(questions) > 0 {
		n := min(len(questions), questionsACall)
		if s.instance == nil {
			return errNotOpen
		}
		asked, err := s.questions(ctx, questions[:n])
		if err != nil {
			return err
		}
		in := s.encoder.WhatIf(asked, s.info.Reads)
		r, err := s.call(engine.FuncWhatIf, in, engine.ApplyBudget(n, len(in), s.instance.MemoryBytes(), s.slots))
		if errors.Is(err, errWorn) {
			if err = s.reopen(ctx, err); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := s.verdicts(engine.FuncWhatIf, r.Out, verdicts[:n]); err != nil {
			return err
		}
		questions, verdicts = questions[n:], verdicts[n:]
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
