package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/keeper"
)

// lingering is how long output is awaited after a command's end: what it left
// running in the background may hold its streams for ever.
const lingering = 2 * time.Second

// Exec implements runtime.Streams.
func (r *Runtime) Exec(ctx context.Context, id string, cfg runtime.ExecConfig) (int32, error) {
	ctx = r.with(ctx)
	code, err := r.exec(ctx, id, cfg)
	if err == nil {
		return code, nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return 0, fmt.Errorf("exec in %s: %w", id, err)
}

func (r *Runtime) exec(ctx context.Context, id string, cfg runtime.ExecConfig) (int32, error) {
	task, _, err := r.runningTask(ctx, id)
	if err != nil {
		return 0, err
	}
	spec, err := task.Spec(ctx)
	if err != nil {
		return 0, err
	}
	proc := spec.Process
	proc.Args, proc.Terminal, proc.ConsoleSize = cfg.Args, cfg.IO.TTY, nil

	execID := newID()
	dir := r.pipes(execID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	stdin := &eofReader{Reader: cfg.IO.Stdin, atEOF: make(chan struct{})}
	p, err := task.Exec(ctx, execID, proc, execStreams(cfg.IO, stdin, dir))
	if err != nil {
		return 0, err
	}
	return runExec(ctx, p, cfg.IO, stdin)
}

// runExec runs a process that was made, and removes it from its shim.
func runExec(ctx context.Context, p client.Process, streams runtime.IO, stdin *eofReader) (int32, error) {
	defer func() {
		// Not with ctx, whose end kills the command; and from the end on, however long
		// it ran.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_, _ = p.Delete(end, client.WithProcessKill)
	}()
	exit, err := p.Wait(context.WithoutCancel(ctx))
	if err != nil {
		return 0, err
	}
	if err := p.Start(ctx); err != nil {
		return startCode(err), execStartError(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go control(context.WithoutCancel(ctx), p, streams, stdin, stop)
	select {
	case status := <-exit:
		if err := status.Error(); err != nil {
			return 0, err
		}
		awaitOutput(p)
		return int32(status.ExitCode()), nil
	case <-ctx.Done():
		kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = p.Kill(kill, syscall.SIGKILL) // it may just have ended
		select {
		case <-exit:
		case <-kill.Done():
		}
		p.IO().Cancel()
		return 0, ctx.Err()
	}
}

// execStartError: a command that does not exist is the caller's mistake.
func execStartError(err error) error { return fmt.Errorf("%w: %w", runtime.ErrStart, err) }

func execStreams(streams runtime.IO, stdin *eofReader, dir string) cio.Creator {
	var in io.Reader
	if streams.Stdin != nil {
		in = stdin
	}
	// The shim wants outputs, whether anybody reads them or not.
	opts := []cio.Opt{cio.WithStreams(in, orDiscard(streams.Stdout), orDiscard(streams.Stderr)), cio.WithFIFODir(dir)}
	if streams.TTY {
		opts = append(opts, cio.WithTerminal)
	}
	return cio.NewCreator(opts...)
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// control passes on what is no output: new sizes, and the end of input.
func control(ctx context.Context, p client.Process, streams runtime.IO, stdin *eofReader, stop <-chan struct{}) {
	atEOF := stdin.atEOF
	for resize := streams.Resize; ; {
		select {
		case <-stop:
			return
		case size, ok := <-resize:
			if !ok {
				resize = nil
				continue
			}
			_ = p.Resize(ctx, uint32(size.Width), uint32(size.Height)) // a late size is no harm
		case <-atEOF:
			atEOF = nil
			_ = p.CloseIO(ctx, client.WithStdinCloser) // it may have ended
		}
	}
}

func awaitOutput(p client.Process) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.IO().Wait()
	}()
	select {
	case <-done:
	case <-time.After(lingering):
		p.IO().Cancel()
		<-done
	}
}

// eofReader tells when its reader has ended.
type eofReader struct {
	io.Reader
	atEOF chan struct{}
	ended bool
}

func (r *eofReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !r.ended {
		r.ended = true
		close(r.atEOF)
	}
	return n, err
}

// Attach implements runtime.Streams.
func (r *Runtime) Attach(ctx context.Context, id string, streams runtime.IO) error {
	ctx = r.with(ctx)
	fail := func(err error) error { return fmt.Errorf("attach to %s: %w", id, err) }
	task, rec, err := r.runningTask(ctx, id)
	if err != nil {
		return fail(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go control(context.WithoutCancel(ctx), task, streams, &eofReader{}, stop)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	noOutput := streams.Stdout == nil && streams.Stderr == nil
	onEOF := func() {
		if rec.StdinOnce {
			r.closeStdin(context.WithoutCancel(ctx), id, task)
		}
		if noOutput {
			cancel()
		}
	}
	err = r.keeper.Attach(ctx, id, streams.Stdin, streams.Stdout, streams.Stderr, onEOF)
	switch {
	case errors.Is(err, keeper.ErrUnknown):
		return fail(runtime.ErrNotRunning)
	case noOutput && errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return fail(err)
	}
	return nil
}

func (r *Runtime) closeStdin(ctx context.Context, id string, task client.Task) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := r.keeper.CloseStdin(ctx, id); err != nil {
		r.log.Debug("close stdin", "container", id, "err", err)
	}
	if err := task.CloseIO(ctx, client.WithStdinCloser); err != nil {
		r.log.Debug("close stdin", "container", id, "err", err)
	}
}
