package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/berth-dev/berth/nodeagent/network/netnstest"
)

// TestMain runs the tests in a network namespace of their own, where there is
// root: they take addresses and port 53.
func TestMain(m *testing.M) { netnstest.Main(m) }

// others is a resolver that knows a few names, and counts what it is asked.
type others struct {
	mu    sync.Mutex
	asked []string
	// answer makes the answer; nil does not answer.
	answer func(m *dns.Msg) *dns.Msg
}

func (o *others) exchange(ctx context.Context, server netip.AddrPort, m *dns.Msg) (*dns.Msg, error) {
	if m.Question[0].Qtype == dns.TypeHINFO {
		return nil, errors.New("no probes here")
	}
	o.mu.Lock()
	o.asked = append(o.asked, fmt.Sprint(server.Addr(), " ", m.Question[0].Name, " ", dns.TypeToString[m.Question[0].Qtype]))
	o.mu.Unlock()
	if a := o.answer(m); a != nil {
		return a, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(oneServer):
		return nil, os.ErrDeadlineExceeded
	}
}

func (o *others) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.asked
	o.asked = nil
	return all
}

// world answers as resolvers of the internet do.
func world(m *dns.Msg) *dns.Msg {
	a := new(dns.Msg).SetReply(m)
	q := a.Question[0]
	rr := func(text string) dns.RR {
		r, err := dns.NewRR(text)
		if err != nil {
			panic(err)
		}
		return r
	}
	soa := rr("example.com. 600 IN SOA ns.example.com. root.example.com. 1 2 3 4 60")
	switch {
	case q.Name == "www.example.com." && q.Qtype == dns.TypeA:
		a.Answer = []dns.RR{rr("www.example.com. 300 IN CNAME web.example.com."), rr("web.example.com. 100 IN A 192.0.2.53")}
	case q.Name == "www.example.com.", q.Name == "host.dept.corp.":
		if q.Name == "host.dept.corp." && q.Qtype == dns.TypeA {
			a.Answer = []dns.RR{rr("host.dept.corp. 300 IN A 192.0.2.7")}
		} else {
			a.Ns = []dns.RR{soa}
		}
	case q.Name == "large.example.com.":
		for i := range 60 {
			a.Answer = append(a.Answer, rr(fmt.Sprintf("large.example.com. 300 IN A 192.0.2.%d", i)))
		}
	case q.Name == "broken.example.com.":
		a.Rcode = dns.RcodeServerFailure
	default:
		a.Rcode, a.Ns = dns.RcodeNameError, []dns.RR{soa}
	}
	return a
}

var pod = netip.MustParseAddr("10.85.0.2")

func newTestServer(t testing.TB, resolv string, change func(*Config)) (*Server, *others) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte(resolv), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Domain: "cluster.local", Resolv: file, Ranges: []netip.Prefix{netip.MustParsePrefix("10.85.0.0/16")},
		Pod: func(a netip.Addr) (string, bool) { return "default", a == pod }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := newServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	z := example(t)
	s.Index, s.zone.Index = z.Index, z.Index
	o := &others{answer: world}
	s.forward.exchange = o.exchange
	return s, o
}

// query asks without a socket.
func (s *Server) query(t testing.TB, client netip.Addr, m *dns.Msg) *dns.Msg {
	t.Helper()
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var q query
	reply, done := s.atOnce(nil, &q, wire, false)
	if !done {
		reply = s.later(wire, client, false)
	}
	got := new(dns.Msg)
	if err := got.Unpack(reply); err != nil {
		t.Fatalf("%v: %x", err, reply)
	}
	return got
}

func records(all []dns.RR) []string {
	var out []string
	for _, r := range all {
		out = append(out, strings.Join(strings.Fields(r.String()), " "))
	}
	return out
}

func question(name string, qtype uint16) *dns.Msg { return new(dns.Msg).SetQuestion(name, qtype) }
