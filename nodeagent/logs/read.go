package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
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

// Read copies a container's log at path, older rotated files first, to out and
// errs. When following, running says whether more may come; a follower misses
// nothing, however slow, or gets ErrBehind.
func Read(ctx context.Context, path string, o Options, out, errs io.Writer, running func() bool) error {
	c, err := openChain(path)
	if err != nil {
		return err
	}
	defer c.close()
	if o.HasTail {
		if err := c.seekTail(o.Tail); err != nil {
			return err
		}
	}
	w := &emitter{o: o, out: out, errs: errs, left: o.LimitBytes, midline: map[string]bool{}, in: bufio.NewReaderSize(c.current(), 64<<10)}
	if !o.Follow || running == nil {
		return ignoreDone(w.copy(c))
	}
	chasing, stop := context.WithCancel(ctx)
	var chase sync.WaitGroup
	chase.Go(func() { c.chase(chasing) })
	defer chase.Wait()
	defer stop()
	return ignoreDone(w.follow(ctx, c, running))
}

// follow copies what is there, and what comes, until the container has ended or
// ctx has.
func (w *emitter) follow(ctx context.Context, c *chain, running func() bool) error {
	for {
		// Asked before reading: what was written before the end is then read.
		on := running()
		behind := c.extend()
		if err := w.copy(c); err != nil {
			return err
		}
		if behind != nil {
			return behind
		}
		if !on {
			if err := c.extend(); err != nil || !c.more() {
				return err
			}
			continue
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

// emitter writes records' text.
type emitter struct {
	o         Options
	out, errs io.Writer
	left      int64
	midline   map[string]bool

	in *bufio.Reader
	// part is a record that is not whole yet.
	part []byte
}

// copy writes what the chain's files hold.
func (w *emitter) copy(c *chain) error {
	for {
		more := c.more() // asked before reading: then nothing is written behind what is read
		if err := w.drain(); err != nil {
			return err
		}
		if !more {
			return nil
		}
		c.next()
		w.in.Reset(c.current())
		w.part = w.part[:0] // torn by a crash: no record goes on in another file
	}
}

// drain writes all whole records of the file that is read.
func (w *emitter) drain() error {
	for {
		chunk, err := w.in.ReadSlice('\n')
		w.part = append(w.part, chunk...)
		switch {
		case err == nil:
			if err := w.record(w.part); err != nil {
				return err
			}
			w.part = w.part[:0]
		case errors.Is(err, bufio.ErrBufferFull):
			if len(w.part) > 1<<20 {
				return errors.New("log: a record is longer than 1 MiB; this is no CRI log")
			}
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
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
