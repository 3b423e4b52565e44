package record

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

const (
	// fileBytes is about how long a file gets.
	fileBytes = 256 << 20
	// syncEvery is how often what was written is synced to the disk.
	syncEvery = time.Second
	// retryAfter is how long a disk that refused is left alone.
	retryAfter = 10 * time.Second
)

// Writer records. Record is called by the scheduler, Run writes.
type Writer struct {
	dir string
	// Deciding is told of each profile the first time that it decides; it keeps
	// the policies. May be nil.
	Deciding func(context.Context, *framework.Digest) error

	// Next is the number that the first decision must have.
	Next uint64
	// FileBytes is about how long a file gets, 256 MiB by default; RetryAfter how
	// long a disk that refused is left alone. They are set before Run.
	FileBytes  int64
	RetryAfter time.Duration
	// Log hears of a disk that refuses; may be nil.
	Log *slog.Logger

	batches chan batch
	seen    uint64
	begun   bool
	anew    chan struct{} // asks for a whole state
	ended   chan struct{} // closed when Run has returned

	file    *os.File
	out     *bufio.Writer
	written int64
	dirty   bool // written, and not synced yet
	digests map[*framework.Digest]bool
	refused time.Time // when the disk did, zero while it takes what it gets

	failing atomic.Bool
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
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	w := &Writer{FileBytes: fileBytes, RetryAfter: retryAfter, dir: dir, batches: make(chan batch, 64), anew: make(chan struct{}, 1), ended: make(chan struct{}), digests: map[*framework.Digest]bool{}}
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

// Failing says whether the disk refuses, and Lost how many decisions are not in
// the recording, because it did or since the log had forgotten their state.
func (w *Writer) Failing() bool { return w.failing.Load() }

// Lost is told with Failing.
func (w *Writer) Lost() uint64 { return w.lost.Load() }

// Run writes until ctx ends and all that was recorded is written. A disk that
// refuses, because it is full, costs what comes meanwhile and nothing else: the
// recording begins again when there is room.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.ended)
	defer w.close()
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	keep := context.WithoutCancel(ctx) // what has come is written, also while the host ends
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case b := <-w.batches:
			w.take(keep, &b)
		case <-tick.C:
			w.sync()
		case <-ctx.Done():
			w.rest(keep)
			return nil
		}
	}
}

func (w *Writer) rest(ctx context.Context) {
	for {
		select {
		case b := <-w.batches:
			w.take(ctx, &b)
		default:
			return
		}
	}
}

// take writes a batch, or notes that the disk refused it.
func (w *Writer) take(ctx context.Context, b *batch) {
	next := w.Next
	err := w.write(ctx, b)
	if err == nil {
		if w.file != nil && !w.refused.IsZero() {
			w.Log.Info("the recording goes on", "lost", w.lost.Load())
			w.refused = time.Time{}
			w.failing.Store(false)
		}
		return
	}
	if w.refused.IsZero() {
		w.Log.Error("the recording cannot be written; scheduling goes on, what is decided meanwhile is not recorded", "err", err)
	}
	w.refused = time.Now()
	w.failing.Store(true)
	w.Next = next
	w.lose(b.traces)
	w.close()
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
	case w.file == nil:
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
	if w.file == nil {
		return nil
	}
	if w.written > w.FileBytes {
		w.askAnew()
	}
	w.dirty = true
	return w.out.Flush()
}

// miss passes over what cannot be written.
func (w *Writer) miss(b *batch) {
	w.lose(b.traces)
	if !w.refused.IsZero() && time.Since(w.refused) >= w.RetryAfter {
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

// sync makes what was written outlast a crash of the machine.
func (w *Writer) sync() {
	if w.file == nil || !w.dirty {
		return
	}
	if err := w.file.Sync(); err != nil {
		w.Log.Warn("the recording is not synced", "err", err)
	}
	w.dirty = false
}

func (w *Writer) deltas(all []snapshot.Delta) error {
	if w.file == nil {
		return nil
	}
	for i := range all {
		l, err := lineOf(&all[i])
		if err == nil && l != nil {
			err = w.line(l)
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
		if err := w.line(decisionLine(t)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) line(l *line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	w.written += int64(len(data)) + 1
	if _, err := w.out.Write(data); err != nil {
		return err
	}
	return w.out.WriteByte('\n')
}

// begin opens the next file.
func (w *Writer) begin() error {
	w.close()
	f, err := os.OpenFile(filepath.Join(w.dir, fileName(w.Next)), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w.file, w.out, w.written = f, bufio.NewWriterSize(f, 1<<20), 0
	clear(w.digests)
	return nil
}

func (w *Writer) close() {
	if w.file != nil {
		_ = w.out.Flush()
		w.sync()
		_ = w.file.Close()
		w.file = nil
	}
}

func fileName(first uint64) string { return fmt.Sprintf("%020d.jsonl", first) }
