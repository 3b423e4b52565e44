// Package socket gathers what is written to a connection. A server of HTTP/2
// hands over each answer in two or three small pieces, and each would be a
// system call, which on a busy host costs more than all else about a piece. Here
// a write is taken in and returns; what has come meanwhile goes out at once, as
// soon as others had their turn.
//
// It keeps the order of bytes, holds a bounded number of them, and writes what
// it has taken in before it closes. An error is told to the write after. A
// deadline is one for the writes to come: what was taken in before has a moment.
package socket

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// most is how many bytes are taken in before a write waits.
	most = 64 << 10
	// lastWrites is how long at least what was taken in may take, whatever
	// deadline is set after it and once the connection closes. It is what
	// crypto/tls gives its last alert.
	lastWrites = 5 * time.Second
)

// Listener accepts connections that gather.
type Listener struct{ net.Listener }

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gather(c), nil
}

// conn is a connection that gathers. Its reads are those of the connection below.
type conn struct {
	net.Conn

	mu sync.Mutex
	// taken is what waits to be written; nil while there is nothing.
	taken *buffer
	// writing: a goroutine writes, and will look for more.
	writing bool
	closed  bool
	// until is the deadline of writes to come; zero for none.
	until time.Time
	err   error
	// changed is told when something was written, or failed.
	changed sync.Cond
}

type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func gather(below net.Conn) *conn {
	c := &conn{Conn: below}
	c.changed.L = &c.mu
	return c
}

// NetConn is the connection below, as that of a tls.Conn.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Write takes p in. It waits only while too much is waiting already.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && !c.closed && c.taken != nil && len(c.taken.bytes)+len(p) > most {
		c.changed.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	if c.closed {
		return 0, net.ErrClosed
	}
	if !c.until.IsZero() && !time.Now().Before(c.until) {
		return 0, os.ErrDeadlineExceeded
	}
	if c.taken == nil {
		c.taken = buffers.Get().(*buffer)
	}
	c.taken.bytes = append(c.taken.bytes, p...)
	if !c.writing {
		c.writing = true
		go c.write()
	}
	return len(p), nil
}

// write writes until nothing is left.
func (c *conn) write() {
	// Whoever is about to add to it does so first.
	runtime.Gosched()
	for {
		next := c.take()
		if next == nil {
			return
		}
		_, err := c.Conn.Write(next.bytes)
		if cap(next.bytes) <= most {
			next.bytes = next.bytes[:0]
			buffers.Put(next)
		}
		if err != nil {
			c.fail(err)
		}
	}
}

// take gives what is to be written next; nil ends the writing.
func (c *conn) take() *buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.taken
	c.taken = nil
	c.changed.Broadcast()
	if next != nil {
		return next
	}
	c.writing = false
	if c.closed {
		_ = c.Conn.Close() // nobody waits for it any more
	}
	return nil
}

func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.taken = err, nil
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline implements net.Conn. The connection below may have a later
// one: whoever ends a connection by a deadline that is over, as crypto/tls does,
// takes all that he wrote before for written.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	if least := time.Now().Add(lastWrites); c.writing && !t.IsZero() && t.Before(least) {
		t = least
	}
	return c.Conn.SetWriteDeadline(t)
}

// Close closes the connection, at once if nothing is left to be written, else
// soon.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.changed.Broadcast()
	if !c.writing {
		return c.Conn.Close()
	}
	// Whoever reads gives up now; what is left has a moment.
	if err := c.SetReadDeadline(time.Now()); err != nil {
		return c.Conn.Close()
	}
	if err := c.Conn.SetWriteDeadline(time.Now().Add(lastWrites)); err != nil {
		return c.Conn.Close()
	}
	return nil
}
