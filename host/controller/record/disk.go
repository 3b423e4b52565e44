package record

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/host/journal"
)

// late is how much later than it was asked a question may reach its file.
const late = time.Minute

// line is a question as it lies on disk. Resource, Namespace and Name come first: by
// them a line is found without reading it.
type line struct {
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Policy    string    `json:"policy"`
	At        time.Time `json:"at"`
	Program   string    `json:"program"`
	Failure   string    `json:"failure,omitempty"`
	// Length is how much of Packed, when it is unpacked, is the question. The rest
	// is the answer.
	Length int    `json:"length"`
	Packed []byte `json:"packed"`
}

// Writer keeps questions on disk.
type Writer struct {
	*journal.Writer
	// Answering is told of each program the first time that it answers; it keeps the
	// policy. May be nil.
	Answering func(ctx context.Context, policy string, program [32]byte) error

	entries chan entry
	ended   chan struct{} // closed when Run has returned
	known   map[[32]byte]bool
	lost    atomic.Uint64
}

func folder(dir string) string { return filepath.Join(dir, "questions") }

// Open prepares dir, beside what lies there.
func Open(dir string) (*Writer, error) {
	files, err := journal.Open(folder(dir))
	if err != nil {
		return nil, err
	}
	return &Writer{Writer: files, entries: make(chan entry, 64), ended: make(chan struct{}), known: map[[32]byte]bool{}}, nil
}

// add waits if the disk can't keep up: a recording that leaves something out is none.
func (w *Writer) add(e entry) {
	select {
	case w.entries <- e:
	case <-w.ended:
	}
}

// Lost is how many questions the disk refused.
func (w *Writer) Lost() uint64 { return w.lost.Load() }

// Run writes until ctx ends and all that was asked is written.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.ended)
	journal.Run(ctx, w.Writer, w.entries, w.take)
	return nil
}

func (w *Writer) take(ctx context.Context, e entry) {
	if w.Failing() && !w.Retry() {
		w.lost.Add(1)
		return
	}
	if err := w.write(ctx, &e); err != nil {
		w.lost.Add(1)
		w.Refused(err)
		return
	}
	w.Taken(w.Lost())
}

func (w *Writer) write(ctx context.Context, e *entry) error {
	if !w.Writing() || w.Full() {
		clear(w.known)
		if err := w.Begin(uint64(e.At.UnixNano())); err != nil {
			return err
		}
	}
	if w.Answering != nil && !w.known[e.Program] {
		if err := w.Answering(ctx, e.Policy, e.Program); err != nil {
			return err
		}
		w.known[e.Program] = true
	}
	l := line{e.Resource, e.Namespace, e.Name, e.Policy, e.At.UTC(), hex.EncodeToString(e.Program[:]), e.Failure, e.in, e.In}
	return errors.Join(w.Line(&l), w.Flush())
}

// Read finds the newest question that is meant in the recording of dir. It is an
// OutsideError that there is none.
func Read(ctx context.Context, dir string, about About) (*Question, error) {
	dir = folder(dir)
	all, err := journal.Firsts(dir)
	if err != nil {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if !about.At.IsZero() && all[i] > uint64(about.At.Add(late).UnixNano()) {
			continue
		}
		found, err := readFile(ctx, journal.Path(dir, all[i]), &about)
		if err != nil {
			return nil, fmt.Errorf("recording %s: %w", journal.Path(dir, all[i]), err)
		}
		if found != nil {
			return found.question()
		}
	}
	return nil, &OutsideError{About: about, Recording: filepath.Dir(dir)}
}

// readFile finds the last line of a file that is meant, nil if none is.
func readFile(ctx context.Context, file string, about *About) (found *line, err error) {
	prefix, err := json.Marshal(line{Resource: about.Resource, Namespace: about.Namespace, Name: about.Name})
	if err != nil {
		return nil, err
	}
	prefix, _, _ = bytes.Cut(prefix, []byte(`"policy"`))
	err = journal.Lines(file, func(data []byte) (bool, error) {
		if !bytes.HasPrefix(data, prefix) {
			return true, ctx.Err()
		}
		var l line
		if err := json.Unmarshal(data, &l); err != nil {
			return false, err
		}
		if (about.Policy == "" || l.Policy == about.Policy) && (about.At.IsZero() || !l.At.After(about.At)) && (found == nil || !l.At.Before(found.At)) {
			found = &l
		}
		return true, ctx.Err()
	})
	return found, err
}

func (l *line) question() (*Question, error) {
	e := entry{in: l.Length, Question: Question{
		About: About{Resource: l.Resource, Namespace: l.Namespace, Name: l.Name, Policy: l.Policy, At: l.At}, In: l.Packed, Failure: l.Failure,
	}}
	program, err := hex.DecodeString(l.Program)
	if err != nil || len(program) != len(e.Program) {
		return nil, errors.Join(fmt.Errorf("a line of the recording names the program %q", l.Program), err)
	}
	copy(e.Program[:], program)
	return e.unpack()
}
