package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

const (
	// fileBytes is about how long a file gets.
	fileBytes = 256 << 20
	// syncEvery is how often what was written is synced to the disk.
	syncEvery = time.Second
	// retryAfter is how long a disk that refused is left alone.
	retryAfter = 10 * time.Second
)

// Writer writes to the newest file of a folder. It is for one goroutine, but for
// Failing.
type Writer struct {
	// FileBytes is about how long a file gets, 256 MiB by default; RetryAfter how
	// long a disk that refused is left alone. They are set before the first line.
	FileBytes  int64
	RetryAfter time.Duration
	// Log hears of a disk that refuses; by default nobody does.
	Log *slog.Logger

	dir     string
	file    *os.File
	out     *bufio.Writer
	written int64
	dirty   bool      // written, and not synced yet
	refused time.Time // when the disk did, zero while it takes what it gets
	failing atomic.Bool
}

// Open prepares a folder.
func Open(dir string) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return &Writer{FileBytes: fileBytes, RetryAfter: retryAfter, Log: slog.New(slog.DiscardHandler), dir: dir}, nil
}

// Begin ends the file that is written to and begins the one that is named by a
// number, anew if it is there.
func (w *Writer) Begin(first uint64) error {
	w.Close()
	f, err := os.OpenFile(Path(w.dir, first), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w.file, w.out, w.written = f, bufio.NewWriterSize(f, 1<<20), 0
	return nil
}

// Writing tells whether a file was begun, and Full whether it is as long as it gets.
func (w *Writer) Writing() bool { return w.file != nil }

// Full is told with Writing.
func (w *Writer) Full() bool { return w.written > w.FileBytes }

// Line writes a line, which Flush hands to the operating system.
func (w *Writer) Line(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.written += int64(len(data)) + 1
	if _, err := w.out.Write(data); err != nil {
		return err
	}
	return w.out.WriteByte('\n')
}

// Flush hands what was written to the operating system: a host that is killed then
// loses none of it.
func (w *Writer) Flush() error {
	w.dirty = true
	return w.out.Flush()
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

// Close ends the file.
func (w *Writer) Close() {
	if w.file != nil {
		_ = w.out.Flush()
		w.sync()
		_ = w.file.Close()
		w.file = nil
	}
}

// Refused ends the file because the disk refuses it.
func (w *Writer) Refused(err error) {
	if w.refused.IsZero() {
		w.Log.Error("the recording cannot be written; all else goes on, and what happens meanwhile is not recorded", "dir", w.dir, "err", err)
	}
	w.refused = time.Now()
	w.failing.Store(true)
	w.Close()
}

// Taken says that the disk took what it got, and how much was lost until then.
func (w *Writer) Taken(lost uint64) {
	if w.refused.IsZero() || w.file == nil {
		return
	}
	w.Log.Info("the recording goes on", "dir", w.dir, "lost", lost)
	w.refused = time.Time{}
	w.failing.Store(false)
}

// Retry tells whether a disk that refused may be tried again.
func (w *Writer) Retry() bool {
	return !w.refused.IsZero() && time.Since(w.refused) >= w.RetryAfter
}

// Failing says whether the disk refuses.
func (w *Writer) Failing() bool { return w.failing.Load() }

// Run hands what comes to take until ctx ends, and then what has come by then; it
// syncs the file meanwhile and ends it.
func Run[T any](ctx context.Context, w *Writer, come <-chan T, take func(context.Context, T)) {
	defer w.Close()
	keep := context.WithoutCancel(ctx) // what has come is written, also while the host ends
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case one := <-come:
			take(keep, one)
		case <-tick.C:
			w.sync()
		case <-ctx.Done():
			for {
				select {
				case one := <-come:
					take(keep, one)
				default:
					return
				}
			}
		}
	}
}
