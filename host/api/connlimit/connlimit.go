// Package connlimit bounds how many connections the API holds, so that clients
// who only connect take neither its descriptors from the store nor its time from
// others.
//
// A connection counts from the moment it is accepted. It is pending until its TLS
// handshake is done (HTTP/2) or its first request begins to arrive (HTTP/1): of
// those there may be few, and the oldest of whichever address has the most gives
// way to the next. A connection beyond the bounds is closed without an answer.
package connlimit

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
)

// Limits are the bounds.
type Limits struct {
	// Total is how many connections there may be, PerAddress how many from one IP
	// address, Pending how many without a request.
	Total, PerAddress, Pending int
}

// What is kept of the descriptors for the store's files, the compile children,
// connections to node agents and logs.
const (
	leastReserved = 256
	maxPending    = 1024
	minTotal      = 32
)

// LimitsFor are those of a process that may open so many descriptors.
func LimitsFor(descriptors uint64) Limits {
	n := int(min(descriptors, 1<<20))
	total := max(n-max(leastReserved, n/4), minTotal)
	return Limits{Total: total, PerAddress: total / 2, Pending: min(total/4, maxPending)}
}

// Descriptors is how many this process may open.
func Descriptors() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, err
}

// Listener accepts connections within limits. Its ConnState must be that of the
// http.Server that serves it.
type Listener struct {
	net.Listener
	limits Limits

	mu      sync.Mutex
	total   int
	pending int
	came    uint64 // how many were admitted
	clients map[netip.Addr]*client
	refused uint64
}

// client is what an address has.
type client struct {
	open    int
	pending list.List // of *conn, oldest first
}

// conn is a connection that counts.
type conn struct {
	net.Conn
	listener *Listener
	from     netip.Addr
	came     uint64 // its place among all that were admitted
	// What follows is guarded by the listener's mutex.
	pending *list.Element // nil once a request has begun
	counted bool
}

// New bounds a listener.
func New(l net.Listener, limits Limits) *Listener {
	return &Listener{Listener: l, limits: limits, clients: map[netip.Addr]*client{}}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		below, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, evicted := l.admit(below)
		if evicted != nil {
			_ = evicted.Close()
		}
		if c != nil {
			return c, nil
		}
		_ = below.Close()
	}
}

// Refused is how many connections were closed for the limits' sake.
func (l *Listener) Refused() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// Open is how many connections there are.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

func addressOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// admit counts a connection, or is nil where there is no place for it. evicted has
// given way to it: it counts no more, and is to be closed.
func (l *Listener) admit(below net.Conn) (c, evicted *conn) {
	from := addressOf(below)
	l.mu.Lock()
	defer l.mu.Unlock()
	who := l.clients[from]
	if who == nil {
		who = &client{}
	}
	switch {
	case who.open >= l.limits.PerAddress:
		evicted = l.evict(who)
	case l.total >= l.limits.Total, l.pending >= l.limits.Pending:
		evicted = l.evict(l.heaviest())
	}
	if evicted != nil {
		l.refused++
	}
	// Who was evicted counts no more, so this is whether that sufficed.
	if who.open >= l.limits.PerAddress || l.total >= l.limits.Total || l.pending >= l.limits.Pending {
		l.refused++
		return nil, evicted
	}
	l.came++
	c = &conn{Conn: below, listener: l, from: from, came: l.came, counted: true}
	c.pending = who.pending.PushBack(c)
	l.clients[from] = who
	who.open++
	l.total++
	l.pending++
	return c, evicted
}

// heaviest is the client with the most pending connections, nil without one. Among
// equals it is the one whose oldest has been pending longest.
func (l *Listener) heaviest() (most *client) {
	for _, who := range l.clients {
		if who.pending.Len() == 0 {
			continue
		}
		if most == nil || who.pending.Len() > most.pending.Len() ||
			who.pending.Len() == most.pending.Len() && who.oldest().came < most.oldest().came {
			most = who
		}
	}
	return most
}

// oldest is the connection that has been pending longest; there must be one.
func (who *client) oldest() *conn { return who.pending.Front().Value.(*conn) }

// evict takes a client's oldest pending connection out of the count.
func (l *Listener) evict(who *client) *conn {
	if who == nil || who.pending.Len() == 0 {
		return nil
	}
	c := who.oldest()
	l.forget(c)
	return c
}

// forget ends a connection's count. The caller holds the lock.
func (l *Listener) forget(c *conn) {
	if !c.counted {
		return
	}
	c.counted = false
	l.begun(c)
	l.total--
	who := l.clients[c.from]
	if who.open--; who.open == 0 {
		delete(l.clients, c.from)
	}
}

// begun takes a connection out of those that are pending. The caller holds the
// lock.
func (l *Listener) begun(c *conn) {
	if c.pending != nil {
		l.clients[c.from].pending.Remove(c.pending)
		c.pending = nil
		l.pending--
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// NetConn is the connection below, as that of a tls.Conn.
func (c *conn) NetConn() net.Conn { return c.Conn }

// ConnState is for http.Server: it hears of each connection's first request.
func (l *Listener) ConnState(c net.Conn, state http.ConnState) {
	if state != http.StateActive && state != http.StateHijacked {
		return
	}
	for c != nil {
		if own, ok := c.(*conn); ok {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.begun(own)
			return
		}
		below, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		c = below.NetConn()
	}
}
