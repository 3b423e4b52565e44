package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Options say what of a log is wanted.
type Options struct {
	// Tail is how many of the last lines are wanted, if HasTail.
	Tail    int64
	HasTail bool
	// Since leaves out what is older.
	Since time.Time
	// LimitBytes ends the output, if positive.
	LimitBytes int64
	Timestamps bool
	// Follow waits for more until the container ended or the context did.
	Follow bool
	// Stream limits to "stdout" or "stderr"; empty is both.
	Stream string
}

// pollEvery is how often a followed log is looked at.
const pollEvery = 100 * time.Millisecond

// Read copies a container's log at path, older rotated files first, to out and
// errs. When following, running says whether more may come.
func Read(ctx context.Context, path string, o Options, out, errs io.Writer, running func() bool) error {
	w := &emitter{o: o, out: out, errs: errs, left: o.LimitBytes, midline: map[string]bool{}}
	start, err := startAt(path, o)
	if err != nil {
		return err
	}
	for i := start.file; i >= 1; i-- {
		if err := w.old(path, i, start); err != nil {
			return ignoreDone(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { f.Close() }()
	if start.file == 0 {
		if _, err := f.Seek(start.offset, io.SeekStart); err != nil {
			return err
		}
	}
	r := bufio.NewReaderSize(f, 64<<10)
	var part []byte
	for {
		// Asked before reading: what was written before the end is then read.
		more := o.Follow && running != nil && running()
		if part, err = w.drain(r, part); err != nil {
			return ignoreDone(err)
		}
		if next, rotated := reopened(path, f); rotated {
			if part, err = w.drain(r, part); err != nil {
				next.Close()
				return ignoreDone(err)
			}
			f.Close()
			f = next
			r.Reset(f)
			continue
		}
		if !more {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollEvery):
		}
	}
}

var errDone = errors.New("done")

func ignoreDone(err error) error {
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// reopened says whether path is another file now than f, and opens it.
func reopened(path string, f *os.File) (*os.File, bool) {
	now, err := os.Stat(path)
	if err != nil {
		return nil, false
	}
	had, err := f.Stat()
	if err != nil || os.SameFile(now, had) {
		return nil, false
	}
	next, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	return next, true
}

// place is where reading starts: a rotated file (0 is the newest) and an offset.
type place struct {
	file   int
	offset int64
}

// startAt finds the place from which Tail lines remain.
func startAt(path string, o Options) (place, error) {
	oldest := 0
	for {
		if _, err := os.Stat(rotated(path, oldest+1)); err != nil {
			break
		}
		oldest++
	}
	if !o.HasTail {
		return place{file: oldest}, nil
	}
	left := o.Tail
	for i := 0; i <= oldest; i++ {
		offset, found, err := tailOffset(rotated(path, i), left)
		if err != nil {
			return place{}, err
		}
		if found >= left {
			return place{file: i, offset: offset}, nil
		}
		left -= found
	}
	return place{file: oldest}, nil
}

// tailOffset finds where the last n whole lines of a file begin, and how many
// there are, reading it backwards. Pieces belong to the line that they begin.
func tailOffset(path string, n int64) (offset, found int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, fmt.Errorf("open log: %w", err)
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, 0, err
	}
	if n <= 0 {
		return end, 0, nil
	}
	var (
		block   = make([]byte, 32<<10)
		carry   []byte // the beginning of a record whose start lies further left
		starts  int64
		tailPos = end
		first   = true
	)
	for pos := end; pos > 0; {
		size := min(int64(len(block)), pos)
		pos -= size
		if _, err := f.ReadAt(block[:size], pos); err != nil {
			return 0, 0, err
		}
		chunk := append(bytes.Clone(block[:size]), carry...)
		for {
			i := bytes.LastIndexByte(chunk[:max(len(chunk)-1, 0)], '\n')
			if i < 0 {
				break
			}
			rec := chunk[i+1:]
			if ends(rec) || first {
				if starts == n {
					return tailPos, n, nil
				}
				starts++
			}
			first = false
			tailPos = pos + int64(i) + 1
			chunk = chunk[:i+1]
		}
		carry = chunk
		if len(carry) > 4*maxPiece {
			carry = carry[:4*maxPiece] // no record of ours is that long
		}
	}
	if len(carry) > 0 {
		if ends(carry) || first {
			if starts == n {
				return tailPos, n, nil
			}
			starts++
		}
		tailPos = 0
	}
	return tailPos, starts, nil
}

// ends says whether a record ends its line.
func ends(record []byte) bool {
	fields := bytes.SplitN(record, []byte{' '}, 4)
	return len(fields) < 3 || !bytes.HasPrefix(fields[2], []byte("P"))
}

// emitter writes records' text.
type emitter struct {
	o         Options
	out, errs io.Writer
	left      int64
	midline   map[string]bool
}

// old copies a rotated file.
func (w *emitter) old(path string, i int, start place) error {
	f, err := os.Open(rotated(path, i))
	if os.IsNotExist(err) {
		return nil // rotated away meanwhile
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if i == start.file {
		if _, err := f.Seek(start.offset, io.SeekStart); err != nil {
			return err
		}
	}
	_, err = w.drain(bufio.NewReaderSize(f, 64<<10), nil)
	return err
}

// drain writes all whole records that r has; the rest comes back.
func (w *emitter) drain(r *bufio.Reader, part []byte) ([]byte, error) {
	for {
		chunk, err := r.ReadSlice('\n')
		part = append(part, chunk...)
		switch {
		case err == nil:
			if err := w.record(part); err != nil {
				return nil, err
			}
			part = part[:0]
		case errors.Is(err, bufio.ErrBufferFull):
			if len(part) > 1<<20 {
				return nil, errors.New("log: a record is longer than 1 MiB; this is no CRI log")
			}
		case errors.Is(err, io.EOF):
			return part, nil
		default:
			return nil, err
		}
	}
}

// Record is one line of a log file.
type Record struct {
	Time   time.Time
	Stream string
	// Whole: the line ends here.
	Whole bool
	Text  []byte
}

// Parse reads one record, without its newline.
func Parse(line []byte) (Record, error) {
	stamp, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return Record{}, fmt.Errorf("log record %.80q has no stream", line)
	}
	t, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return Record{}, fmt.Errorf("log record: %w", err)
	}
	stream, rest, _ := bytes.Cut(rest, []byte{' '})
	if s := string(stream); s != "stdout" && s != "stderr" {
		return Record{}, fmt.Errorf("log record of stream %.20q", stream)
	}
	tags, text, _ := bytes.Cut(rest, []byte{' '})
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	if s := string(tag); s != "F" && s != "P" {
		return Record{}, fmt.Errorf("log record with tag %.20q", tags)
	}
	return Record{Time: t, Stream: string(stream), Whole: string(tag) == "F", Text: text}, nil
}

func (w *emitter) record(line []byte) error {
	rec, err := Parse(bytes.TrimSuffix(line, []byte{'\n'}))
	if err != nil {
		return nil // a torn record of a crash: the others are still good
	}
	if w.o.Stream != "" && rec.Stream != w.o.Stream || rec.Time.Before(w.o.Since) {
		return nil
	}
	text := bytes.Clone(rec.Text)
	if rec.Whole {
		text = append(text, '\n')
	}
	if w.o.Timestamps && !w.midline[rec.Stream] {
		text = append(rec.Time.AppendFormat(nil, time.RFC3339Nano), append([]byte{' '}, text...)...)
	}
	w.midline[rec.Stream] = !rec.Whole
	done := false
	if w.o.LimitBytes > 0 {
		if int64(len(text)) >= w.left {
			text, done = text[:w.left], true
		}
		w.left -= int64(len(text))
	}
	to := w.out
	if rec.Stream == "stderr" {
		to = w.errs
	}
	if to != nil {
		if _, err := to.Write(text); err != nil {
			return err
		}
	}
	if done {
		return errDone
	}
	return nil
}
