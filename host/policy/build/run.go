package build

import (
	"context"
	"os/exec"
	"syscall"
	"time"
)

// grace is how long a compiler or test has to end by itself.
const grace = 5 * time.Second

// Run runs a compiler or test with all that it starts; when ctx ends, so do they
// all, first by an interrupt, upon which they put their own things in order.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// A group of their own: what a terminal sends to ours does not end the
	// compiler before those whom it waits for.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	group := -cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGINT)
	late := time.AfterFunc(grace, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
	defer late.Stop()
	<-ended                                  //nolint:errcheck // ctx says why
	_ = syscall.Kill(group, syscall.SIGKILL) // who is left of them
	return ctx.Err()
}
