package containerd

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// TestAnExecIsRemovedWhenItEnds, by itself or since its time is over: however long it
// has run, its shim has time to let it go.
func TestAnExecIsRemovedWhenItEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		runs, limit time.Duration
		code        int32
		err         error
	}{
		"soon":                             {runs: time.Second, limit: time.Minute, code: 3},
		"late":                             {runs: time.Hour, limit: 2 * time.Hour, code: 3},
		"not before its time is over":      {runs: time.Hour, limit: time.Second, err: context.DeadlineExceeded},
		"not before its long time is over": {runs: time.Hour, limit: 45 * time.Second, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				p := &process{runs: test.runs, exit: make(chan client.ExitStatus, 1)}
				code, err := runExec(ctx, p, runtime.IO{}, &eofReader{atEOF: make(chan struct{})})
				if code != test.code || !errors.Is(err, test.err) {
					t.Errorf("runExec = %d, %v, want %d, %v", code, err, test.code, test.err)
				}
				if p.deleted != 1 || p.late != nil {
					t.Errorf("it was removed %d times, with no time left: %v", p.deleted, p.late)
				}
				if killed := test.err != nil; p.killed != killed {
					t.Errorf("killed = %v, want %v", p.killed, killed)
				}
			})
		})
	}
}

// process runs for a while, or until it is killed.
type process struct {
	client.Process
	runs    time.Duration
	exit    chan client.ExitStatus
	end     *time.Timer
	killed  bool
	deleted int
	late    error // what Delete was too late for
}

func (p *process) Wait(context.Context) (<-chan client.ExitStatus, error) { return p.exit, nil }

func (p *process) Start(context.Context) error {
	p.end = time.AfterFunc(p.runs, func() { p.exit <- *client.NewExitStatus(3, time.Now(), nil) })
	return nil
}

func (p *process) Kill(ctx context.Context, _ syscall.Signal, _ ...client.KillOpts) error {
	if p.end.Stop() {
		p.exit <- *client.NewExitStatus(137, time.Now(), nil)
	}
	p.killed = true
	return ctx.Err()
}

func (p *process) Delete(ctx context.Context, _ ...client.ProcessDeleteOpts) (*client.ExitStatus, error) {
	p.deleted++
	p.late = ctx.Err()
	return nil, p.late
}

func (p *process) IO() cio.IO { return quiet{} }

// quiet are the streams of a process that says nothing.
type quiet struct{ cio.IO }

func (quiet) Wait()   {}
func (quiet) Cancel() {}
