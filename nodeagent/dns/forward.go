package dns

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// How long others are waited for: one server, all of them, and one that did not
// answer until it is asked before others again.
const (
	oneServer  = 2 * time.Second
	allServers = 4500 * time.Millisecond // resolvers in pods wait 5 s
	sitsOut    = 10 * time.Second
)

var errNoServer = errors.New("no resolver of this machine answers")

// forwarder asks the machine's resolvers.
type forwarder struct {
	log *slog.Logger
	// exchange asks one server; tests put their own here.
	exchange func(ctx context.Context, server netip.AddrPort, m *dns.Msg) (*dns.Msg, error)
	failed   func()

	mu     sync.Mutex
	down   map[netip.AddrPort]time.Time // until when
	tokens map[string]netip.AddrPort    // names by which a loop is noticed
	loops  map[netip.AddrPort]bool
}

func newForwarder(log *slog.Logger) *forwarder {
	return &forwarder{
		log: log, exchange: exchange, failed: func() {}, down: map[netip.AddrPort]time.Time{}, tokens: map[string]netip.AddrPort{}, loops: map[netip.AddrPort]bool{},
	}
}

// ask puts the question to one server after another, until one knows.
func (f *forwarder) ask(ctx context.Context, servers []netip.AddrPort, m *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, allServers)
	defer cancel()
	var last *dns.Msg
	var errs []error
	for _, server := range f.order(servers) {
		answer, err := f.exchange(ctx, server, m)
		if err != nil {
			errs = append(errs, fmt.Errorf("ask %s: %w", server, err))
			f.failed()
			if !errors.Is(ctx.Err(), context.Canceled) {
				f.note(server, time.Now().Add(sitsOut))
			}
			continue
		}
		f.note(server, time.Time{})
		if answer.Rcode == dns.RcodeSuccess || answer.Rcode == dns.RcodeNameError {
			return answer, nil
		}
		last = answer // it could not say: the next one may
	}
	if last != nil {
		return last, nil
	}
	return nil, errors.Join(append([]error{errNoServer}, errs...)...)
}

func (f *forwarder) note(server netip.AddrPort, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until.IsZero() {
		delete(f.down, server)
	} else {
		f.down[server] = until
	}
}

// order has those first that answered, and leaves out those that ask us back.
func (f *forwarder) order(servers []netip.AddrPort) []netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	out := slices.DeleteFunc(slices.Clone(servers), func(s netip.AddrPort) bool { return f.loops[s] })
	slices.SortStableFunc(out, func(a, b netip.AddrPort) int {
		down := func(s netip.AddrPort) int {
			if now.Before(f.down[s]) {
				return 1
			}
			return 0
		}
		return cmp.Compare(down(a), down(b))
	})
	return out
}

// probe asks each server for a name that nobody else has. If we are asked for it
// in turn, the server's queries end here.
func (f *forwarder) probe(ctx context.Context, spawn func(func()), servers []netip.AddrPort) {
	f.mu.Lock()
	clear(f.tokens)
	clear(f.loops)
	clear(f.down)
	names := map[string]netip.AddrPort{}
	for _, s := range servers {
		names[strings.ToLower(rand.Text()+"."+rand.Text()+".")] = s
	}
	for name, s := range names {
		f.tokens[name] = s
	}
	f.mu.Unlock()
	for name, s := range names {
		spawn(func() {
			m := new(dns.Msg).SetQuestion(name, dns.TypeHINFO)
			_, _ = f.exchange(ctx, s, m) // what it says does not matter
		})
	}
}

// looped notices a probe that came back.
func (f *forwarder) looped(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	server, ok := f.tokens[name]
	if ok && !f.loops[server] {
		f.loops[server] = true
		f.log.Error("a resolver of this machine sends queries back to the cluster's DNS, and is not asked any more: name another one in resolv.conf", "resolver", server.Addr())
	}
	return ok
}

// exchange asks one server by UDP, and by TCP if the answer does not fit.
func exchange(ctx context.Context, server netip.AddrPort, m *dns.Msg) (*dns.Msg, error) {
	m = m.Copy()
	m.Id = dns.Id()
	wire, err := m.Pack()
	if err != nil {
		return nil, err
	}
	for _, network := range []string{"udp", "tcp"} {
		answer, err := over(ctx, network, server, m, wire)
		if err != nil {
			return nil, err
		}
		if !answer.Truncated {
			return answer, nil
		}
	}
	return nil, errors.New("the answer is cut short by TCP too")
}

func over(ctx context.Context, network string, server netip.AddrPort, m *dns.Msg, wire []byte) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, oneServer)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // a closed one needs none
	if network == "tcp" {
		wire = append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)
	}
	if _, err := conn.Write(wire); err != nil {
		return nil, err
	}
	size := dns.MaxMsgSize
	if network == "udp" {
		size = 4 << 10 // more than what is offered
	}
	buf := make([]byte, size)
	for {
		n, err := receive(conn, network, buf)
		if err != nil {
			return nil, err
		}
		// Anyone may have sent it: what does not fit is not heard.
		answer := new(dns.Msg)
		if err := answer.Unpack(buf[:n]); fits(answer, m) {
			if err != nil && !answer.Truncated {
				return nil, err
			}
			return answer, nil
		}
		if network == "tcp" {
			return nil, errors.New("the answer is to another question")
		}
	}
}

func receive(conn net.Conn, network string, buf []byte) (int, error) {
	if network == "udp" {
		return conn.Read(buf)
	}
	if _, err := io.ReadFull(conn, buf[:2]); err != nil {
		return 0, err
	}
	return io.ReadFull(conn, buf[:binary.BigEndian.Uint16(buf)])
}

// fits: an answer is to what was asked.
func fits(answer, m *dns.Msg) bool {
	if !answer.Response || answer.Id != m.Id || answer.Opcode != m.Opcode || len(answer.Question) != 1 {
		return false
	}
	a, q := answer.Question[0], m.Question[0]
	return a.Qtype == q.Qtype && a.Qclass == q.Qclass && strings.EqualFold(a.Name, q.Name)
}
