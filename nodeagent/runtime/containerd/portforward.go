package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	goruntime "runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// PortForward implements runtime.Streams.
func (r *Runtime) PortForward(ctx context.Context, sandboxID string, port int32, stream io.ReadWriteCloser) error {
	ctx = r.with(ctx)
	fail := func(err error) error { return fmt.Errorf("forward to port %d of %s: %w", port, sandboxID, err) }
	if _, _, err := r.load(ctx, sandboxID); err != nil {
		return fail(err)
	}
	pid, err := r.pausePID(ctx, sandboxID)
	if err != nil {
		return fail(err)
	}
	conn, err := dialIn(ctx, fmt.Sprintf("/proc/%d/ns/net", pid), strconv.Itoa(int(port)))
	if err != nil {
		return fail(err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close(); stream.Close() })()
	splice(conn, stream)
	return ctx.Err()
}

// dialIn connects to a local port inside a network namespace: the socket keeps
// the namespace of the thread that made it. The thread is not used again.
func dialIn(ctx context.Context, netns, port string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		goruntime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		conn, err := dialHere(ctx, netns, port)
		done <- result{conn, err}
	}()
	res := <-done
	return res.conn, res.err
}

func dialHere(ctx context.Context, netns, port string) (net.Conn, error) {
	f, err := os.Open(netns)
	if err != nil {
		return nil, fmt.Errorf("enter the network namespace: %w", runtime.ErrNotRunning)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter the network namespace: %w", err)
	}
	var dialer net.Dialer
	conn, err4 := dialer.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err4 == nil {
		return conn, nil
	}
	conn, err6 := dialer.DialContext(ctx, "tcp6", net.JoinHostPort("::1", port))
	if err6 == nil {
		return conn, nil
	}
	return nil, errors.Join(err4, err6)
}

// splice copies both ways, until both sides have ended what they send or
// either breaks.
func splice(conn net.Conn, stream io.ReadWriteCloser) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(conn, stream)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	_, _ = io.Copy(stream, conn)
	conn.Close()
	stream.Close()
	both.Wait()
}
