package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// listeners is one listener made of several, to which more come while it works.
type listeners struct {
	first    net.Listener
	accepted chan accepted
	closed   chan struct{}

	mu   sync.Mutex
	more []net.Listener
}

type accepted struct {
	conn net.Conn
	err  error
}

func newListeners(first net.Listener) *listeners {
	l := &listeners{first: first, accepted: make(chan accepted), closed: make(chan struct{})}
	go l.take(first)
	return l
}

// take hands on what comes in, and what keeps it from coming in: it is for the
// server to wait where, say, too many files are open.
func (l *listeners) take(from net.Listener) {
	for {
		conn, err := from.Accept()
		select {
		case l.accepted <- accepted{conn, err}:
		case <-l.closed:
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// add listens at a further address, which may be one that the machine has not
// got yet: that of a bridge which the first pod brings.
func (l *listeners) add(at netip.AddrPort) error {
	free := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlled := c.Control(func(fd uintptr) {
			level, option := unix.SOL_IP, unix.IP_FREEBIND
			if at.Addr().Is6() {
				level, option = unix.SOL_IPV6, unix.IPV6_FREEBIND
			}
			err = unix.SetsockoptInt(int(fd), level, option, 1)
		})
		return errors.Join(controlled, err)
	}}
	next, err := free.Listen(context.Background(), "tcp", at.String())
	if err != nil {
		return fmt.Errorf("listen where pods reach the API: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return next.Close()
	default:
	}
	l.more = append(l.more, next)
	go l.take(next)
	return nil
}

// Accept implements net.Listener.
func (l *listeners) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener: it is the first one's.
func (l *listeners) Addr() net.Addr { return l.first.Addr() }

// Close implements net.Listener.
func (l *listeners) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil
	default:
	}
	close(l.closed)
	errs := []error{l.first.Close()}
	for _, m := range l.more {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// reached are the addresses at which pods reach an API that listens at own: none
// where that is the loopback, which each pod has one of its own.
func (h *Host) reached(own netip.AddrPort) (at []netip.AddrPort) {
	if a := own.Addr().Unmap(); !a.IsUnspecified() {
		if a.IsLoopback() {
			return nil
		}
		return []netip.AddrPort{netip.AddrPortFrom(a, own.Port())}
	}
	for _, name := range h.Advertise {
		if a, err := netip.ParseAddr(name); err == nil && !a.IsLoopback() {
			at = append(at, netip.AddrPortFrom(a.Unmap(), own.Port()))
		}
	}
	for _, r := range h.services {
		one := func(a netip.AddrPort) bool { return a.Addr().Is4() == r.Addr().Is4() }
		if a, ok := outward(r.Addr().Is4()); ok && !slices.ContainsFunc(at, one) {
			at = append(at, netip.AddrPortFrom(a, own.Port()))
		}
	}
	return at
}

// local is where clients of this machine reach an API that listens at own. At all
// addresses is none that a certificate could name: then it is the one by which the
// machine reaches others, so that its node gets that address too.
func local(own netip.AddrPort) netip.AddrPort {
	if !own.Addr().IsUnspecified() {
		return own
	}
	for _, four := range []bool{true, false} {
		if a, ok := outward(four); ok {
			return netip.AddrPortFrom(a, own.Port())
		}
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), own.Port())
}

// outward is the address by which this machine reaches others. Nothing is sent.
func outward(four bool) (netip.Addr, bool) {
	to := "[2001:db8::1]:9" // addresses of documentation, which lie behind the default route
	if four {
		to = "192.0.2.1:9"
	}
	c, err := net.Dial("udp", to)
	if err != nil {
		return netip.Addr{}, false
	}
	defer c.Close()
	a := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return a, !a.IsLoopback()
}
