package stream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timeout is how long a client's bytes may lie unread before its connection is
// looked at.
const timeout = 5 * time.Second

// leaving passes an upgraded connection on, and tells when its client has left.
//
// Whoever reads a connection sees its end. But what a client sends to a program
// that does not read stops the reading, and behind it lies the end, for as long
// as the program runs. So a connection that nobody has read for a while is asked
// whether the other side still holds it: that costs no memory, however much the
// client has sent.
type leaving struct {
	http.ResponseWriter
	timeout time.Duration
	// ctx ends the looking; left is told that the client is gone.
	ctx  context.Context //nolint:containedctx // the request's, of which this is the answer
	left func()
}

// Unwrap serves http.ResponseController.
func (w *leaving) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker.
func (w *leaving) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := &clientConn{Conn: conn, from: both.Reader, timeout: w.timeout, left: w.left}
	c.timer = time.AfterFunc(c.timeout, c.look)
	context.AfterFunc(w.ctx, c.stop)
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

// clientConn is a client's connection that knows whether somebody reads it.
type clientConn struct {
	net.Conn
	// from holds what was read already, and has the server see the end: that ends
	// the request's context.
	from    io.Reader
	timeout time.Duration
	left    func()
	timer   *time.Timer

	mu sync.Mutex
	// reading says that a read waits; reads counts them, and seen is that of the
	// last look.
	reading     bool
	reads, seen uint64
	stopped     bool
}

// Read implements net.Conn.
func (c *clientConn) Read(p []byte) (int, error) {
	c.mark(true)
	defer c.mark(false)
	return c.from.Read(p)
}

func (c *clientConn) mark(reading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = reading
	c.reads++
}

// Close implements net.Conn. Whoever closes it has seen the client's end, or has
// made it: nobody is left to work for.
func (c *clientConn) Close() error {
	c.stop()
	c.left()
	return c.Conn.Close()
}

func (c *clientConn) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}

// look ends a connection that nobody reads any more and nobody holds.
func (c *clientConn) look() {
	if c.stalls() && gone(c.Conn) {
		_ = c.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.timer.Reset(c.timeout)
	}
}

// stalls says whether nobody has read since the last look.
func (c *clientConn) stalls() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := c.reads == c.seen
	c.seen = c.reads
	return same && !c.reading && !c.stopped
}

// gone says whether the other side has closed the connection, as the kernel
// knows it whatever lies unread before that.
func gone(conn net.Conn) bool {
	for {
		wrapped, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = wrapped.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	held := true
	err = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			held = info.State == unix.BPF_TCP_ESTABLISHED
		}
	})
	return err != nil || !held
}
