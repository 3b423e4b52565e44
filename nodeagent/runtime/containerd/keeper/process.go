package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// argv0 is the name under which the program runs as a keeper.
const argv0 = "berth-streams"

// installed says that Main stands in this program's main function.
var installed atomic.Bool

// Main serves and exits if this process was started as a keeper, and returns
// otherwise. It stands first in a program's main function.
func Main() {
	installed.Store(true)
	if os.Args[0] != argv0 {
		return
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: "+argv0+" SOCKET")
		os.Exit(2)
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	l, err := listen(os.Args[1])
	if err != nil {
		log.Error("no stream keeper", "err", err)
		os.Exit(1)
	}
	if err := NewServer(log).Serve(context.Background(), l, true); err != nil {
		log.Error("stream keeper ended", "err", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func listen(socket string) (net.Listener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(socket, 0o600)
}

// Ensure connects to the keeper at socket, after starting one if there is
// none: as a process that outlives this one where Main is installed, else
// within this process, until ctx ends. It returns as Hold does.
func Ensure(ctx context.Context, socket string, log *slog.Logger) (gone <-chan struct{}, release func(), err error) {
	c := At(socket)
	if gone, release, err = c.Hold(ctx); err == nil {
		return gone, release, nil
	}
	if !installed.Load() {
		l, err := listen(socket)
		if err != nil {
			return nil, nil, fmt.Errorf("start the stream keeper: %w", err)
		}
		go func() { _ = NewServer(log).Serve(ctx, l, false) }()
		return c.Hold(ctx)
	}
	if err := spawn(socket); err != nil {
		return nil, nil, fmt.Errorf("start the stream keeper: %w", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if gone, release, err = c.Hold(ctx); err == nil {
			return gone, release, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, nil, err
		}
	}
}

// spawn starts a keeper in a session of its own.
func spawn(socket string) error {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(socket), "streams.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", socket)
	cmd.Args[0] = argv0
	cmd.Stderr = log
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // reaped, should it end before this process
	return nil
}
