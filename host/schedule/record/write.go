package record

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/profile"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// fileBytes is about how long a file gets.
const fileBytes = 256 << 20

// Writer records. Record is called by the scheduler, Run writes.
type Writer struct {
	dir string
	// Deciding is told of each profile the first time that it decides; it keeps
	// the policies. May be nil.
	Deciding func(context.Context, *profile.Digest) error

	// Next is the number that the first decision must have.
	Next uint64

	batches chan batch
	seen    uint64
	begun   bool
	anew    chan struct{} // asks for a whole state
	ended   chan struct{} // closed when Run has returned

	file    *os.File
	out     *bufio.Writer
	written int64
	digests map[*profile.Digest]bool
}

// batch is what happened between two looks: changes, and the decisions that
// they came with; then, where a file begins, the whole state. Nothing of it is
// ever changed.
type batch struct {
	deltas []snapshot.Delta
	traces []schedule.Trace
	whole  []snapshot.Delta
}

// Open prepares dir, and goes on where an earlier recording ended.
func Open(dir string) (*Writer, error) {
	dir = filepath.Join(dir, "decisions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	w := &Writer{dir: dir, batches: make(chan batch, 64), anew: make(chan struct{}, 1), ended: make(chan struct{}), digests: map[*profile.Digest]bool{}}
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
	var b batch
	begins := !w.begun
	select {
	case <-w.anew:
		begins = true
	default:
	}
	if w.begun {
		deltas, ok := log.Since(w.seen)
		if ok {
			b.deltas, b.traces = deltas, traces
		}
		begins = begins || !ok
	}
	if begins {
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

// Run writes until ctx ends and all that was recorded is written.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.ended)
	defer w.close()
	for {
		select {
		case b := <-w.batches:
			if err := w.write(ctx, &b); err != nil {
				return fmt.Errorf("record: %w", err)
			}
		case <-ctx.Done():
			return w.rest(context.WithoutCancel(ctx))
		}
	}
}

func (w *Writer) rest(ctx context.Context) error {
	for {
		select {
		case b := <-w.batches:
			if err := w.write(ctx, &b); err != nil {
				return fmt.Errorf("record: %w", err)
			}
		default:
			return nil
		}
	}
}

func (w *Writer) write(ctx context.Context, b *batch) error {
	if err := w.deltas(b.deltas); err != nil {
		return err
	}
	if err := w.traces(ctx, b.traces); err != nil {
		return err
	}
	if b.whole != nil || w.file == nil {
		if err := w.begin(); err != nil {
			return err
		}
		if err := w.deltas(b.whole); err != nil {
			return err
		}
	}
	if w.written > fileBytes {
		select {
		case w.anew <- struct{}{}:
		default:
		}
	}
	return w.out.Flush()
}

func (w *Writer) deltas(all []snapshot.Delta) error {
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
		_ = w.file.Close()
		w.file = nil
	}
}

func fileName(first uint64) string { return fmt.Sprintf("%020d.jsonl", first) }
