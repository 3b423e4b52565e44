package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits of what clients may have at a time.
const (
	maxWaiting  = 1000 // queries that wait for others
	waitOfOne   = 100  // of them, those of one address
	maxConns    = 500
	connsOfOne  = 50
	connQueries = 200 // on one connection
	connIdle    = 10 * time.Second
)

// Config says what a server answers for. Domain and Addresses are required.
type Config struct {
	// Domain is the cluster's, such as cluster.local.
	Domain string
	// Addresses are those of the cluster's DNS service. The machine is given
	// those that it does not have.
	Addresses []netip.Addr
	// Port is 53 unless set.
	Port uint16
	// Ranges are those of the cluster's pods and services: none of their
	// addresses is asked of others.
	Ranges []netip.Prefix
	// Resolv is the machine's resolv.conf; /etc/resolv.conf unless set.
	Resolv string
	// Pod finds the namespace of the pod that has an address and looks names up
	// by the standard search path; nil knows no pods.
	Pod func(netip.Addr) (namespace string, ok bool)
	// Synced: the index has what the API has. Until then names of the cluster
	// are answered by an error, rather than denied. Nil is always.
	Synced func() bool
	Log    *slog.Logger
}

// Server answers on one machine.
type Server struct {
	*Index
	zone    zone
	cfg     Config
	log     *slog.Logger
	cache   *cache
	forward *forwarder
	machine *machine
	flights flights
	counts  counts

	answers   []netip.Addr
	packets   []*net.UDPConn
	listeners []*net.TCPListener
	ctx       context.Context // of Run, for what waits
	waiting   limit
	conns     limit
	wait      sync.WaitGroup
}

// Listen takes the addresses that can be had; Run makes the server answer. It
// fails, with what is in the way, where none can.
func Listen(ctx context.Context, cfg Config) (*Server, error) {
	s, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range s.cfg.Addresses {
		err := Claim(a)
		if err == nil {
			err = s.listen(ctx, netip.AddrPortFrom(a, s.cfg.Port))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.answers = append(s.answers, a)
	}
	if len(s.answers) == 0 {
		return nil, errors.Join(append(errs, s.Close())...)
	}
	for _, err := range errs {
		s.log.Warn("an address of the cluster's DNS does not answer on this machine", "err", err)
	}
	return s, nil
}

// Addresses are those at which the server answers.
func (s *Server) Addresses() []netip.Addr { return s.answers }

func newServer(cfg Config) (*Server, error) {
	if cfg.Port == 0 {
		cfg.Port = 53
	}
	if cfg.Resolv == "" {
		cfg.Resolv = "/etc/resolv.conf"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Pod == nil {
		cfg.Pod = func(netip.Addr) (string, bool) { return "", false }
	}
	if cfg.Synced == nil {
		cfg.Synced = func() bool { return true }
	}
	index, err := NewIndex(cfg.Domain, cfg.Addresses...)
	if err != nil {
		return nil, fmt.Errorf("the cluster's domain: %w", err)
	}
	s := &Server{
		Index: index, zone: zone{index, cfg.Ranges}, cfg: cfg, log: cfg.Log, cache: &cache{entries: map[string]*kept{}},
		forward: newForwarder(cfg.Log), machine: &machine{path: cfg.Resolv, own: cfg.Addresses, log: cfg.Log},
		ctx: context.Background(), waiting: limit{most: maxWaiting, ofOne: waitOfOne, of: map[netip.Addr]int{}},
		conns: limit{most: maxConns, ofOne: connsOfOne, of: map[netip.Addr]int{}},
	}
	s.forward.failed = func() { s.counts.failures.Add(1) }
	return s, nil
}

func (s *Server) listen(ctx context.Context, at netip.AddrPort) error {
	var free net.ListenConfig
	p, err := free.ListenPacket(ctx, "udp", at.String())
	if err != nil {
		return fmt.Errorf("answer DNS at %s: %w", at, err)
	}
	// Both have one port, also where it is any.
	at = netip.AddrPortFrom(at.Addr(), p.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	l, err := free.Listen(ctx, "tcp", at.String())
	if err != nil {
		return errors.Join(fmt.Errorf("answer DNS at %s: %w", at, err), p.Close())
	}
	s.packets = append(s.packets, p.(*net.UDPConn))
	s.listeners = append(s.listeners, l.(*net.TCPListener))
	return nil
}

// Close lets the ports go. The addresses stay with the machine: its pods have
// them in their resolv.conf, and come back to them.
func (s *Server) Close() error {
	var errs []error
	for _, p := range s.packets {
		errs = append(errs, p.Close())
	}
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Run answers until ctx ends, and returns when all that it began has ended.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	s.ctx = ctx
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		s.Close()
	})
	for _, p := range s.packets {
		for range min(4, runtime.GOMAXPROCS(0)) {
			group.Go(func() error { return s.servePackets(ctx, p) })
		}
	}
	for _, l := range s.listeners {
		group.Go(func() error { return s.serveConns(ctx, l) })
	}
	err := group.Wait() // ctx has ended
	<-closed            // its ports are free again
	s.wait.Wait()
	return err
}

// servePackets answers what can be answered at once, and starts what cannot.
func (s *Server) servePackets(ctx context.Context, conn *net.UDPConn) error {
	in, out := make([]byte, 4<<10), make([]byte, 0, 4<<10)
	var q query
	for {
		n, from, err := conn.ReadFromUDPAddrPort(in)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("answer DNS: %w", err)
		}
		if err != nil {
			s.pause(ctx, err)
			continue
		}
		client := from.Addr().Unmap()
		reply, done := s.atOnce(out, &q, in[:n], false)
		if done {
			s.send(conn, from, reply)
			continue
		}
		packet := append([]byte(nil), in[:n]...)
		if !s.waiting.enter(client) {
			s.counts.refused.Add(1)
			s.send(conn, from, q.fail(out, servfail))
			continue
		}
		s.wait.Go(func() {
			defer s.waiting.leave(client)
			s.send(conn, from, s.later(packet, client, false))
		})
	}
}

// pause keeps a machine that is short of something, such as descriptors, from
// being asked for it without end.
func (s *Server) pause(ctx context.Context, err error) {
	s.log.Warn("answer DNS", "err", err)
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

func (s *Server) send(conn *net.UDPConn, to netip.AddrPort, reply []byte) {
	if len(reply) == 0 {
		return
	}
	if _, err := conn.WriteToUDPAddrPort(reply, to); err != nil {
		s.log.Debug("answer DNS", "client", to, "err", err)
	}
}

func (s *Server) serveConns(ctx context.Context, l *net.TCPListener) error {
	for {
		conn, err := l.AcceptTCP()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("answer DNS: %w", err)
		}
		if err != nil {
			s.pause(ctx, err)
			continue
		}
		client := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if !s.conns.enter(client) {
			conn.Close()
			continue
		}
		s.wait.Go(func() {
			defer s.conns.leave(client)
			s.serveConn(ctx, conn, client)
		})
	}
}

func (s *Server) serveConn(ctx context.Context, conn *net.TCPConn, client netip.Addr) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var length [2]byte
	var q query
	for range connQueries {
		if conn.SetDeadline(time.Now().Add(connIdle)) != nil {
			return
		}
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, packet); err != nil {
			return
		}
		reply, done := s.atOnce(nil, &q, packet, true)
		if !done {
			reply = s.queue(packet, client, &q)
		}
		if len(reply) == 0 {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

func (s *Server) queue(packet []byte, client netip.Addr, q *query) []byte {
	if !s.waiting.enter(client) {
		s.counts.refused.Add(1)
		return q.fail(nil, servfail)
	}
	defer s.waiting.leave(client)
	return s.later(packet, client, true)
}

// limit counts what clients have at a time.
type limit struct {
	most, ofOne int

	mu  sync.Mutex
	all int
	of  map[netip.Addr]int
}

func (l *limit) enter(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || l.of[client] >= l.ofOne {
		return false
	}
	l.all++
	l.of[client]++
	return true
}

func (l *limit) leave(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of[client]--; l.of[client] == 0 {
		delete(l.of, client)
	}
}
