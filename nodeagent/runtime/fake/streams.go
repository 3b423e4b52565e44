package fake

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Exec implements runtime.Streams.
func (r *Runtime) Exec(ctx context.Context, id string, cfg runtime.ExecConfig) (int32, error) {
	c, err := r.lookup(id)
	if err != nil {
		return 0, err
	}
	if err := r.enter("Exec", c.Pod.Name+"/"+c.Name); err != nil {
		return 0, err
	}
	r.mu.Lock()
	state := c.State
	r.mu.Unlock()
	if state != runtime.Running {
		return 0, fmt.Errorf("container %s: %w", id, runtime.ErrNotRunning)
	}
	p := &process{stdin: cfg.IO.Stdin, stdout: cfg.IO.Stdout, stderr: cfg.IO.Stderr, env: map[string]string{}, open: c.open}
	for _, e := range c.cfg.Env {
		p.env[e.Name] = e.Value
	}
	if p.stdin == nil {
		p.stdin = strings.NewReader("")
	}
	if p.stdout == nil {
		p.stdout = io.Discard
	}
	if p.stderr == nil {
		p.stderr = io.Discard
	}
	code := p.run(ctx, cfg.Args)
	return code, ctx.Err()
}

// Attach implements runtime.Streams.
func (r *Runtime) Attach(ctx context.Context, id string, streams runtime.IO) error {
	c, err := r.lookup(id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	state, stdin := c.State, c.stdin
	r.mu.Unlock()
	if state != runtime.Running {
		return fmt.Errorf("container %s: %w", id, runtime.ErrNotRunning)
	}
	leave := c.out.join(streams)
	defer leave()
	if streams.Stdin != nil && stdin != nil {
		go func() {
			io.Copy(stdin, streams.Stdin)
			if c.cfg.StdinOnce {
				stdin.Close()
			}
		}()
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fanout copies a container's output to whoever is attached.
type fanout struct {
	closers []io.Closer

	mu     sync.Mutex
	joined map[*runtime.IO]bool
}

func (f *fanout) join(streams runtime.IO) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.joined == nil {
		f.joined = map[*runtime.IO]bool{}
	}
	s := &streams
	f.joined[s] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.joined, s)
	}
}

// Close closes the log.
func (f *fanout) Close() {
	for _, c := range f.closers {
		c.Close()
	}
}

type fanoutStream struct {
	f      *fanout
	stderr bool
}

func (f *fanout) stream(stderr bool) io.Writer { return fanoutStream{f, stderr} }

func (s fanoutStream) Write(b []byte) (int, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for streams := range s.f.joined {
		w := streams.Stdout
		if s.stderr && !streams.TTY {
			w = streams.Stderr
		}
		if w != nil {
			w.Write(b)
		}
	}
	return len(b), nil
}
