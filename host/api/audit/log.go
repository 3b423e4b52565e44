package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Options bound the log; zero values are the defaults.
type Options struct {
	// MaxBytes is the size at which the file is put aside: 100 MiB.
	MaxBytes int64
	// Keep is how many such files stay: 10.
	Keep int
	// Queue is how many lines may wait for the disk: 8192.
	Queue int
	Log   *slog.Logger
	Now   func() time.Time
}

func (o Options) withDefaults() Options {
	if o.MaxBytes == 0 {
		o.MaxBytes = 100 << 20
	}
	if o.Keep == 0 {
		o.Keep = 10
	}
	if o.Queue == 0 {
		o.Queue = 8192
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Log is an audit log that is open. Run writes it.
type Log struct {
	path    string
	opts    Options
	lines   chan *auditv1.Event
	dropped atomic.Uint64

	// Run's own.
	file *os.File
	out  *bufio.Writer
	size int64
}

// Open opens the file for appending, or makes it.
func Open(path string, opts Options) (*Log, error) {
	l := &Log{path: path, opts: opts.withDefaults()}
	l.lines = make(chan *auditv1.Event, l.opts.Queue)
	return l, l.open()
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w (choose a file in a directory that is there and can be written)", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open the audit log: %w", err), file.Close())
	}
	l.file, l.out, l.size = file, bufio.NewWriterSize(file, 64<<10), info.Size()
	return nil
}

// Record takes a request down. It never waits.
func (l *Log) Record(r *Request) {
	e := eventOf(r)
	before := l.dropped.Swap(0)
	if before > 0 {
		told := map[string]string{dropped: strconv.FormatUint(before, 10)}
		maps.Copy(told, e.Annotations)
		e.Annotations = told
	}
	select {
	case l.lines <- e:
	default:
		l.dropped.Add(before + 1)
	}
}

// Run writes lines until ctx ends, and then those that still wait.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case e := <-l.lines:
			l.write(e)
		case <-tick.C:
			l.complain(l.out.Flush())
		case <-ctx.Done():
			return l.finish()
		}
	}
}

func (l *Log) finish() error {
	for {
		select {
		case e := <-l.lines:
			l.write(e)
		default:
			return errors.Join(l.out.Flush(), l.file.Sync(), l.file.Close())
		}
	}
}

func (l *Log) write(e *auditv1.Event) {
	line, err := json.Marshal(e)
	if err != nil {
		l.complain(err)
		return
	}
	if l.size > 0 && l.size+int64(len(line)) >= l.opts.MaxBytes {
		l.complain(l.rotate())
	}
	n, err := l.out.Write(append(line, '\n'))
	l.size += int64(n)
	if err != nil {
		l.complain(err)
		l.dropped.Add(1)
		l.out.Reset(l.file) // a buffer that failed once refuses for ever
	}
}

func (l *Log) complain(err error) {
	if err != nil {
		l.opts.Log.Error("audit log", "file", l.path, "err", err)
	}
}

// rotate puts the file aside under the time, and removes the oldest ones.
func (l *Log) rotate() error {
	if err := errors.Join(l.out.Flush(), l.file.Close()); err != nil {
		l.complain(err)
	}
	aside := l.path + "-" + l.opts.Now().UTC().Format("20060102T150405.000000000")
	renamed := os.Rename(l.path, aside)
	if err := l.open(); err != nil {
		return errors.Join(renamed, err)
	}
	return errors.Join(renamed, l.prune())
}

func (l *Log) prune() error {
	dir, base := filepath.Split(l.path)
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for old audit logs: %w", err)
	}
	var old []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), base+"-") && entry.Type().IsRegular() {
			old = append(old, entry.Name())
		}
	}
	slices.Sort(old)
	for len(old) > l.opts.Keep {
		if err := os.Remove(filepath.Join(dir, old[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old audit log: %w", err)
		}
		old = old[1:]
	}
	return nil
}
