package record

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"

	"github.com/berth-dev/berth/host/journal"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Writer records. Record is called by the scheduler, Run writes.
type Writer struct {
	*journal.Writer
	dir string
	// Deciding is told of each profile the first time that it decides; it keeps
	// the policies. May be nil.
	Deciding func(context.Context, *framework.Digest) error

	// Next is the number that the first decision must have.
	Next uint64

	batches chan batch
	seen    uint64
	begun   bool
	anew    chan struct{} // asks for a whole state
	ended   chan struct{} // closed when Run has returned
	digests map[*framework.Digest]bool
	lost    atomic.Uint64
}

// batch is what happened between two looks: changes, and the decisions that
// they came with; then, where a file begins, the whole state. Nothing of it is
// ever changed.
type batch struct {
	deltas []snapshot.Delta
	traces []schedule.Trace
	// gap says that the log has forgotten changes: there is no state to replay
	// these decisions from.
	gap    bool
	begins bool
	whole  []snapshot.Delta
}

// Open prepares dir, and goes on where an earlier recording ended.
func Open(dir string) (*Writer, error) {
	dir = filepath.Join(dir, "decisions")
	files, err := journal.Open(dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{Writer: files, dir: dir, batches: make(chan batch, 64), anew: make(chan struct{}, 1), ended: make(chan struct{}), digests: map[*framework.Digest]bool{}}
	last, ok, err := lastNumber(dir)
	if ok {
		w.Next = last + 1
	}
	return w, err
}

// Record notes what has changed and what was decided since it was last called.
// It waits if the disk can't keep up: a recording that leaves something out is
// none.
func (w *Writer) Record(ctx context.Context, log snapshot.Log, traces []schedule.Trace) {
	b := batch{traces: traces}
	begins := !w.begun
	select {
	case <-w.anew:
		begins = true
	default:
	}
	if w.begun {
		deltas, ok := log.Since(w.seen)
		if ok {
			b.deltas = deltas.Whole()
		}
		b.gap, begins = !ok, begins || !ok
	}
	if b.begins = begins; begins {
		log.Base(func(d snapshot.Delta) bool { b.whole = append(b.whole, d); return true })
	}
	w.seen, w.begun = log.Seq(), true
	if !begins && len(b.deltas)+len(b.traces) == 0 {
		return
	}
	select {
	case w.batches <- b:
	case <-w.ended:
	case <-ctx.Done():
	}
}

// Lost is how many decisions are not in the recording, because the disk refused
// them or since the log had forgotten their state.
func (w *Writer) Lost() uint64 { return w.lost.Load() }

// Run writes until ctx ends and all that was recorded is written. A disk that
// refuses, because it is full, costs what comes meanwhile and nothing else: the
// recording begins again when there is room.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.ended)
	journal.Run(ctx, w.Writer, w.batches, w.take)
	return nil
}

// take writes a batch, or notes that the disk refused it.
func (w *Writer) take(ctx context.Context, b batch) {
	next := w.Next
	err := w.write(ctx, &b)
	if err == nil {
		w.Taken(w.Lost())
		return
	}
	w.Next = next
	w.lose(b.traces)
	w.Refused(err)
}

// askAnew asks for a whole state, with which a file begins.
func (w *Writer) askAnew() {
	select {
	case w.anew <- struct{}{}:
	default:
	}
}

func (w *Writer) write(ctx context.Context, b *batch) error {
	switch {
	case !w.Writing():
		w.miss(b)
	case b.gap:
		w.forgotten(w.lose(b.traces))
	default:
		if err := errors.Join(w.deltas(b.deltas), w.traces(ctx, b.traces)); err != nil {
			return err
		}
	}
	if b.begins {
		if err := errors.Join(w.begin(), w.deltas(b.whole)); err != nil {
			return err
		}
	}
	if !w.Writing() {
		return nil
	}
	if w.Full() {
		w.askAnew()
	}
	return w.Flush()
}

// miss passes over what cannot be written.
func (w *Writer) miss(b *batch) {
	w.lose(b.traces)
	if w.Retry() {
		w.askAnew()
	}
}

// lose passes over decisions, and says how many.
func (w *Writer) lose(traces []schedule.Trace) (n uint64) {
	if len(traces) == 0 {
		return 0
	}
	return w.skip(traces[len(traces)-1].Number + 1)
}

// skip counts all decisions up to the next as lost.
func (w *Writer) skip(next uint64) (n uint64) {
	n = next - min(next, w.Next)
	w.lost.Add(n)
	w.Next = next
	return n
}

// forgotten says so of decisions whose state, or which themselves, the log had
// forgotten before they could be recorded.
func (w *Writer) forgotten(n uint64) {
	if n > 0 {
		w.Log.Warn("decisions are not recorded: more has changed at once than the log in memory holds; give it more by --log-memory", "decisions", n)
	}
}

func (w *Writer) deltas(all []snapshot.Delta) error {
	if !w.Writing() {
		return nil
	}
	for i := range all {
		l, err := lineOf(&all[i])
		if err == nil && l != nil {
			err = w.Line(l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) traces(ctx context.Context, traces []schedule.Trace) error {
	for i := range traces {
		t := &traces[i]
		w.forgotten(w.skip(t.Number))
		w.Next = t.Number + 1
		if w.Deciding != nil && !w.digests[t.Digest] {
			if err := w.Deciding(ctx, t.Digest); err != nil {
				return err
			}
			w.digests[t.Digest] = true
		}
		if err := w.Line(decisionLine(t)); err != nil {
			return err
		}
	}
	return nil
}

// begin opens the next file.
func (w *Writer) begin() error {
	clear(w.digests)
	return w.Begin(w.Next)
}
