package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-dev/berth/host/polltest"
)

func TestOthersAreAskedOnceAndRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := newTestServer(t, "nameserver 192.0.2.1\n", nil)
		got := s.query(t, pod, question("WWW.example.com.", dns.TypeA))
		want := []string{"WWW.example.com. 300 IN CNAME web.example.com.", "web.example.com. 100 IN A 192.0.2.53"}
		if diff := cmp.Diff(want, records(got.Answer)); diff != "" || got.Authoritative || !got.RecursionAvailable {
			t.Errorf("answer differs (-want +got):\n%s\n%v", diff, got)
		}
		time.Sleep(40 * time.Second)
		got = s.query(t, pod, question("www.Example.com.", dns.TypeA))
		want = []string{"www.Example.com. 260 IN CNAME web.Example.com.", "web.Example.com. 60 IN A 192.0.2.53"}
		if diff := cmp.Diff(want, records(got.Answer)); diff != "" {
			t.Errorf("40 s later the answer differs (-want +got):\n%s", diff)
		}
		s.query(t, pod, question("www.example.com.", dns.TypeAAAA))
		s.query(t, pod, question("none.example.com.", dns.TypeA))
		if got := s.query(t, pod, question("none.example.com.", dns.TypeA)); got.Rcode != dns.RcodeNameError || len(got.Ns) != 1 {
			t.Errorf("none.example.com. = %v", got)
		}
		if diff := cmp.Diff([]string{"192.0.2.1 www.example.com. A", "192.0.2.1 www.example.com. AAAA", "192.0.2.1 none.example.com. A"}, o.take()); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		time.Sleep(61 * time.Second) // the first answer's time has passed, the denials' too
		s.query(t, pod, question("www.example.com.", dns.TypeA))
		s.query(t, pod, question("none.example.com.", dns.TypeA))
		if got := o.take(); len(got) != 2 {
			t.Errorf("asked again: %v", got)
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(s)
		if all, err := registry.Gather(); err != nil || len(all) != 5 {
			t.Errorf("metrics %v, %v", all, err)
		}
		s.wait.Wait()
	})
}

func TestOldAnswersServeWhileNobodyAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := newTestServer(t, "nameserver 192.0.2.1\nnameserver 192.0.2.2\n", nil)
		s.query(t, pod, question("www.example.com.", dns.TypeA))
		o.take()
		time.Sleep(2 * time.Hour)
		o.answer = func(*dns.Msg) *dns.Msg { return nil } // silent
		began := time.Now()
		got := s.query(t, pod, question("www.example.com.", dns.TypeA))
		if len(got.Answer) != 2 || got.Answer[1].Header().Ttl != 30 || time.Since(began) != responseTimeout {
			t.Errorf("after %s: %v", time.Since(began), got)
		}
		s.wait.Wait()
		if got := o.take(); len(got) != 2 {
			t.Errorf("asked: %v", got)
		}
		o.answer = func(m *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(m, dns.RcodeServerFailure) }
		if got := s.query(t, pod, question("www.example.com.", dns.TypeA)); len(got.Answer) != 2 {
			t.Errorf("a failure, where there is an old answer: %v", got)
		}
		if got := s.query(t, pod, question("other.example.com.", dns.TypeA)); got.Rcode != dns.RcodeServerFailure {
			t.Errorf("a failure: %v", got)
		}
		time.Sleep(staleFor)
		if got := s.query(t, pod, question("www.example.com.", dns.TypeA)); got.Rcode != dns.RcodeServerFailure {
			t.Errorf("after a day: %v", got)
		}
		if stale := s.counts.stale.Load(); stale != 2 {
			t.Errorf("%d stale answers counted", stale)
		}
		s.wait.Wait()
	})
}

func TestASilentResolverIsAskedLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := newTestServer(t, "nameserver 192.0.2.1\nnameserver 192.0.2.2\n", nil)
		s.forward.exchange = func(ctx context.Context, server netip.AddrPort, m *dns.Msg) (*dns.Msg, error) {
			if server.Addr() == netip.MustParseAddr("192.0.2.1") && m.Question[0].Qtype != dns.TypeHINFO {
				<-time.After(oneServer)
				return nil, os.ErrDeadlineExceeded
			}
			return o.exchange(ctx, server, m)
		}
		for i, want := range []time.Duration{oneServer, 0} {
			began := time.Now()
			if got := s.query(t, pod, question(fmt.Sprintf("n%d.example.com.", i), dns.TypeA)); got.Rcode != dns.RcodeNameError || time.Since(began) != want {
				t.Errorf("%d: after %s: %v", i, time.Since(began), got)
			}
		}
		time.Sleep(sitsOut)
		began := time.Now()
		if s.query(t, pod, question("later.example.com.", dns.TypeA)); time.Since(began) != oneServer {
			t.Errorf("it was not tried again")
		}
		s.wait.Wait()
	})
}

func TestQuestionsOfManyAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := newTestServer(t, "nameserver 192.0.2.1\n", nil)
		o.answer = func(m *dns.Msg) *dns.Msg {
			time.Sleep(time.Second)
			return world(m)
		}
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if got := s.query(t, pod, question("www.example.com.", dns.TypeA)); len(got.Answer) != 2 {
					t.Errorf("answer %v", got)
				}
			})
		}
		group.Wait()
		if got := o.take(); len(got) != 1 {
			t.Errorf("asked %v", got)
		}
		s.wait.Wait()
	})
}

func TestSearchPath(t *testing.T) {
	t.Parallel()
	const below = ".default.svc.cluster.local."
	stranger := netip.MustParseAddr("10.85.0.3")
	tests := []struct {
		what, name string
		qtype      uint16
		client     netip.Addr
		rcode      int
		want       []string
		asked      []string
	}{
		{"an external name", "Www.example.com" + below, dns.TypeA, pod, 0, []string{
			"Www.example.com" + below + " 5 IN CNAME Www.example.com.", "Www.example.com. 300 IN CNAME web.example.com.", "web.example.com. 100 IN A 192.0.2.53",
		}, []string{"192.0.2.1 www.example.com.corp. A", "192.0.2.1 www.example.com. A"}},
		{"which has no such address", "www.example.com" + below, dns.TypeAAAA, pod, 0, []string{"www.example.com" + below + " 5 IN CNAME www.example.com."},
			[]string{"192.0.2.1 www.example.com.corp. AAAA", "192.0.2.1 www.example.com. AAAA"}},
		{"a name of the machine's domain", "host.dept" + below, dns.TypeA, pod, 0, []string{"host.dept" + below + " 5 IN CNAME host.dept.corp.", "host.dept.corp. 300 IN A 192.0.2.7"}, []string{"192.0.2.1 host.dept.corp. A"}},
		{"a service that is not there: others are not asked", "host" + below, dns.TypeA, pod, dns.RcodeNameError, nil, nil},
		{"an endpoint of a service that has others", "host.headless" + below, dns.TypeA, pod, dns.RcodeNameError, nil, nil},
		{"an endpoint of a service that has none", "host.empty" + below, dns.TypeA, pod, dns.RcodeNameError, nil, nil},
		{"a service by its namespace", "kubernetes.default" + below, dns.TypeA, pod, 0, []string{
			"kubernetes.default" + below + " 5 IN CNAME kubernetes" + below, "kubernetes" + below + " 5 IN A 10.3.0.1",
		}, nil},
		{"a service by its whole name", "kubernetes" + below[:len(below)-1] + below, dns.TypeA, pod, 0, []string{
			"kubernetes" + below[:len(below)-1] + below + " 5 IN CNAME kubernetes" + below, "kubernetes" + below + " 5 IN A 10.3.0.1",
		}, nil},
		{"no name at all", "none.example.com" + below, dns.TypeA, pod, dns.RcodeNameError, nil, []string{"192.0.2.1 none.example.com.corp. A", "192.0.2.1 none.example.com. A"}},
		{"one that nobody can tell", "broken.example.com" + below, dns.TypeA, pod, dns.RcodeServerFailure, nil, []string{"192.0.2.1 broken.example.com.corp. A", "192.0.2.1 broken.example.com. A"}},
		{"no service by a whole name: others are not asked", "none.default.svc.cluster.local" + below, dns.TypeA, pod, dns.RcodeNameError, nil, nil},
		{"a client that is no pod of ours", "www.example.com" + below, dns.TypeA, stranger, dns.RcodeNameError, nil, nil},
		{"another namespace's path", "www.example.com.other.svc.cluster.local.", dns.TypeA, pod, dns.RcodeNameError, nil, nil},
		{"a type that is not searched for", "www.example.com" + below, dns.TypeTXT, pod, dns.RcodeNameError, nil, nil},
		{"an ExternalName", "foo" + below, dns.TypeA, stranger, 0, []string{
			"foo" + below + " 5 IN CNAME www.example.com.", "www.example.com. 300 IN CNAME web.example.com.", "web.example.com. 100 IN A 192.0.2.53",
		}, []string{"192.0.2.1 www.example.com. A"}},
		{"an ExternalName in the cluster", "inner" + below, dns.TypeA, stranger, 0, []string{"inner" + below + " 5 IN CNAME kubernetes" + below, "kubernetes" + below + " 5 IN A 10.3.0.1"}, nil},
		{"an ExternalName without a target", "gone" + below, dns.TypeA, stranger, dns.RcodeNameError, []string{"gone" + below + " 5 IN CNAME none" + below}, nil},
		{"ExternalNames in a circle", "circle" + below, dns.TypeA, stranger, dns.RcodeServerFailure, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			s, o := newTestServer(t, "nameserver 192.0.2.1\nsearch corp\n", nil)
			s.SetService(external("inner", "kubernetes"+below))
			s.SetService(external("gone", "none"+below))
			s.SetService(external("circle", "circle"+below))
			got := s.query(t, tt.client, question(tt.name, tt.qtype))
			answer := records(got.Answer)
			if tt.what == "ExternalNames in a circle" {
				answer = nil
			}
			if diff := cmp.Diff(tt.want, answer); diff != "" || got.Rcode != tt.rcode {
				t.Errorf("%s, answer differs (-want +got):\n%s", dns.RcodeToString[got.Rcode], diff)
			}
			if diff := cmp.Diff(tt.asked, o.take()); diff != "" {
				t.Errorf("asked others (-want +got):\n%s", diff)
			}
			s.wait.Wait()
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	s, o := newTestServer(t, "nameserver 192.0.2.1\n", nil)
	const name = "kubernetes.default.svc.cluster.local."
	tests := []struct {
		what  string
		make  func(m *dns.Msg)
		rcode int
	}{
		{"ANY", func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeANY }, dns.RcodeRefused},
		{"a zone transfer", func(m *dns.Msg) { m.SetAxfr("cluster.local.") }, dns.RcodeRefused},
		{"another", func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeIXFR }, dns.RcodeRefused},
		{"the server's version", func(m *dns.Msg) {
			m.Question[0] = dns.Question{Name: "version.bind.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}
		}, dns.RcodeRefused},
		{"an update", func(m *dns.Msg) { m.SetUpdate("cluster.local.") }, dns.RcodeNotImplemented},
		{"a notification", func(m *dns.Msg) { m.SetNotify("cluster.local.") }, dns.RcodeNotImplemented},
		{"two questions", func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, dns.RcodeFormatError},
		{"an answer in it", func(m *dns.Msg) {
			m.Answer = []dns.RR{&dns.NULL{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeNULL, Class: 1}}}
		}, dns.RcodeFormatError},
		{"two options", func(m *dns.Msg) { m.SetEdns0(1232, false).SetEdns0(1232, false) }, dns.RcodeFormatError},
		{"a later EDNS", func(m *dns.Msg) { m.SetEdns0(1232, false).IsEdns0().SetVersion(1) }, dns.RcodeBadVers},
	}
	for _, tt := range tests {
		m := question(name, dns.TypeA)
		tt.make(m)
		if got := s.query(t, pod, m); got.Rcode != tt.rcode || len(got.Answer) != 0 || got.Id != m.Id {
			t.Errorf("%s: %v, want %s", tt.what, got, dns.RcodeToString[tt.rcode])
		}
	}
	if got := o.take(); len(got) != 0 {
		t.Errorf("asked others: %v", got)
	}
	answer := question(name, dns.TypeA)
	answer.Response = true
	wire, err := answer.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var q query
	for _, packet := range [][]byte{nil, {1}, wire} {
		if reply, done := s.atOnce(nil, &q, packet, false); !done || len(reply) != 0 {
			t.Errorf("%x is answered by %x", packet, reply)
		}
	}
}

func TestNamesAreNotDeniedBeforeTheyAreKnown(t *testing.T) {
	t.Parallel()
	var synced atomic.Bool
	s, _ := newTestServer(t, "nameserver 192.0.2.1\n", func(c *Config) { c.Synced = synced.Load })
	if got := s.query(t, pod, question("none.default.svc.cluster.local.", dns.TypeA)); got.Rcode != dns.RcodeServerFailure {
		t.Errorf("before: %v", got)
	}
	if got := s.query(t, pod, question("www.example.com.", dns.TypeA)); len(got.Answer) != 2 {
		t.Errorf("others' names, before: %v", got)
	}
	synced.Store(true)
	if got := s.query(t, netip.Addr{}, question("none.default.svc.cluster.local.", dns.TypeA)); got.Rcode != dns.RcodeNameError {
		t.Errorf("after: %v", got)
	}
}

func TestLargeAnswersOfOthersAreCut(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(t, "nameserver 192.0.2.1\n", nil)
	m := question("large.example.com.", dns.TypeA)
	if got := s.query(t, pod, m); !got.Truncated || len(got.Answer) != 29 {
		t.Errorf("%d answers, truncated %v", len(got.Answer), got.Truncated)
	}
	if got := s.query(t, pod, m.SetEdns0(4096, true)); got.Truncated || len(got.Answer) != 60 || !got.IsEdns0().Do() {
		t.Errorf("%d answers, truncated %v, %v", len(got.Answer), got.Truncated, got.IsEdns0())
	}
}

func TestResolvConfIsFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own := netip.MustParseAddr("10.96.0.10")
		s, o := newTestServer(t, "nameserver 10.96.0.10\nnameserver 192.0.2.1\n", func(c *Config) { c.Addresses = []netip.Addr{own} })
		ask := func(name string) *dns.Msg { return s.query(t, pod, question(name, dns.TypeA)) }
		ask("a.example.com.")
		write := func(text string) {
			if err := os.WriteFile(s.cfg.Resolv, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(checkEvery)
		}
		write("nameserver 192.0.2.2\n")
		ask("b.example.com.")
		if diff := cmp.Diff([]string{"192.0.2.1 a.example.com. A", "192.0.2.2 b.example.com. A"}, o.take()); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		write("nameserver 10.96.0.10\n")
		if got := ask("c.example.com."); got.Rcode != dns.RcodeServerFailure || len(o.take()) != 0 {
			t.Errorf("with nobody but ourselves to ask: %v", got)
		}
		s.wait.Wait()
	})
}

// TestLoop: what the machine asks asks us. It is noticed by a name that nobody
// else can have, and until then no question is passed on twice.
func TestLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := newTestServer(t, "nameserver 192.0.2.1\nnameserver 192.0.2.2\n", nil)
		var passed atomic.Int32
		s.forward.exchange = func(ctx context.Context, server netip.AddrPort, m *dns.Msg) (*dns.Msg, error) {
			if server.Addr() != netip.MustParseAddr("192.0.2.1") {
				return o.exchange(ctx, server, m)
			}
			passed.Add(1)
			back := make(chan *dns.Msg, 1)
			s.wait.Go(func() { back <- s.query(t, netip.MustParseAddr("192.0.2.1"), m) })
			select {
			case a := <-back:
				return a, nil
			case <-time.After(oneServer):
				return nil, os.ErrDeadlineExceeded
			}
		}
		if got := s.query(t, pod, question("www.example.com.", dns.TypeA)); len(got.Answer) != 2 {
			t.Errorf("the other resolver answers: %v", got)
		}
		s.wait.Wait()
		if n := passed.Load(); n > 2 { // the probe, and the question
			t.Errorf("passed on %d times", n)
		}
		s.query(t, pod, question("b.example.com.", dns.TypeA))
		if n := passed.Load(); n > 2 {
			t.Errorf("it is still asked")
		}
		s.wait.Wait()
	})
}

// TestOverTheNet asks through sockets, and the server asks others so.
func TestOverTheNet(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(t, "", nil)
	if err := s.listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		t.Fatal(err)
	}
	upstream := resolver(t, func(m *dns.Msg, tcp bool) []*dns.Msg {
		a := world(m)
		if len(a.Answer) > 10 && !tcp { // it has to be asked by TCP
			a.Answer, a.Truncated = a.Answer[:3], true
		}
		forged := a.Copy()
		forged.Id++
		other := a.Copy()
		other.Question = []dns.Question{{Name: "evil.example.com.", Qtype: dns.TypeA, Qclass: dns.ClassINET}}
		if tcp {
			return []*dns.Msg{a}
		}
		return []*dns.Msg{forged, other, a}
	})
	s.forward.exchange = exchange
	s.machine.checked, s.machine.servers = time.Now().Add(time.Hour), []netip.AddrPort{upstream}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	at := s.packets[0].LocalAddr().String()
	for _, network := range []string{"udp", "tcp"} {
		for name, want := range map[string]int{
			"kubernetes.default.svc.cluster.local.": 1, "www.example.com.": 2, "foo.default.svc.cluster.local.": 3, "large.example.com.": 60,
		} {
			c := &dns.Client{Net: network, Timeout: 20 * time.Second}
			got, _, err := c.Exchange(question(name, dns.TypeA).SetEdns0(1232, false), at)
			if err != nil || len(got.Answer) != want || got.Truncated {
				t.Errorf("%s by %s: %v, %v", name, network, got, err)
			}
		}
	}
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // open while the server ends
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
	if _, err := net.Listen("tcp", at); err != nil {
		t.Errorf("the port is not free again: %v", err)
	}
}

// resolver listens at a port of the loopback, by UDP and TCP.
func resolver(t *testing.T, answer func(m *dns.Msg, tcp bool) []*dns.Msg) netip.AddrPort {
	t.Helper()
	p, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", p.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, tcp := range []bool{false, true} {
		started := make(chan struct{})
		server := &dns.Server{NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
			for _, a := range answer(m, tcp) {
				if err := w.WriteMsg(a); err != nil {
					t.Error(err)
				}
			}
		})}
		if tcp {
			server.Listener = l
		} else {
			server.PacketConn = p
		}
		go server.ActivateAndServe()
		<-started
		t.Cleanup(func() { server.Shutdown() })
	}
	return p.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestAnswersToOthersAreNotHeard(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"udp", "tcp"} {
		at := resolver(t, func(m *dns.Msg, _ bool) []*dns.Msg {
			a := world(m)
			if network == "tcp" {
				a.Truncated = true
			}
			a.Id++
			return []*dns.Msg{a}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		m := question("www.example.com.", dns.TypeA)
		wire, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := over(ctx, network, at, m, wire); err == nil {
			t.Errorf("by %s: %v", network, got)
		}
	}
}

func TestListenTakesTheAddress(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("addresses are root's to give")
	}
	at := netip.MustParseAddr("10.96.0.10")
	cfg := Config{Domain: "cluster.local", Addresses: []netip.Addr{at, netip.MustParseAddr("fd96::a")}}
	for range 2 { // the second time it is there already
		s, err := Listen(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "answer DNS at 10.96.0.10:53") || !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a second server: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	taken, err := net.ListenPacket("udp", "[fd96::a]:53")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(t.Context(), cfg) // one address is better than none
	if err != nil || !slices.Equal(s.Addresses(), []netip.Addr{at}) {
		t.Errorf("with one address taken: %v, %v", s, err)
	}
	if err := errors.Join(s.Close(), taken.Close()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := Disclaim(cfg.Addresses...); err != nil {
			t.Error(err)
		}
	}
	if has, err := hasAddress(at); has || err != nil {
		t.Errorf("the address is left: %v, %v", has, err)
	}
}

func TestOneClientCannotTakeAllThatWaits(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(t, "", nil)
	w := &s.waiting
	for range waitOfOne {
		if !w.enter(pod) {
			t.Fatal("refused too early")
		}
	}
	if w.enter(pod) {
		t.Error("one client may have more than its part")
	}
	if other := netip.MustParseAddr("10.85.0.9"); !w.enter(other) {
		t.Error("another may not")
	}
	w.leave(pod)
	if !w.enter(pod) {
		t.Error("what was given back is not free")
	}
}

// TestOneClientCannotTakeAllConnections: those that it has more than its part are
// closed, others are served.
func TestOneClientCannotTakeAllConnections(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(t, "", nil)
	if err := s.listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	ask := func(from string) (*dns.Conn, error) {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, "tcp", s.listeners[0].Addr().String())
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { conn.Close() })
		c := &dns.Conn{Conn: conn}
		err = c.WriteMsg(question("kubernetes.default.svc.cluster.local.", dns.TypeA))
		if err == nil {
			_, err = c.ReadMsg()
		}
		return c, err
	}
	var last *dns.Conn
	for i := range connsOfOne {
		var err error
		if last, err = ask("127.0.0.1"); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if _, err := ask("127.0.0.1"); err == nil {
		t.Error("one client may have more than its part")
	}
	if _, err := ask("127.0.0.2"); err != nil {
		t.Errorf("another may not: %v", err)
	}
	last.Close()
	polltest.Until(t, "what was given back is free", func() bool {
		_, err := ask("127.0.0.1")
		return err == nil
	})
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := &cache{entries: map[string]*kept{}}
	for i := range maxEntries + 500 {
		c.put(fmt.Sprint(i), &kept{until: time.Unix(int64(i), 0)})
	}
	if n := c.size(); n != maxEntries {
		t.Errorf("%d entries", n)
	}
	for i := range 1000 {
		c.put(fmt.Sprint("large", i), &kept{body: make([]byte, 60<<10), until: time.Unix(int64(i), 0)})
	}
	if sum := 0; c.bytes > maxBytes || c.bytes < maxBytes/2 {
		t.Errorf("%d bytes", c.bytes)
	} else {
		for key, k := range c.entries {
			sum += k.cost(key)
		}
		if sum != c.bytes {
			t.Errorf("%d bytes counted, there are %d", c.bytes, sum)
		}
	}
}
