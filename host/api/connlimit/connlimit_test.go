package connlimit

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// remote is a connection from an address, of which only that is looked at.
type remote struct {
	net.Conn
	from   string
	closed bool
}

func (r *remote) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(r.from), 1))
}
func (r *remote) Close() error { r.closed = true; return nil }

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		descriptors uint64
		want        Limits
	}{
		{64, Limits{32, 16, 8}},
		{1024, Limits{768, 384, 192}},
		{20_000, Limits{15_000, 7_500, 1024}},
		{1 << 62, Limits{786_432, 393_216, 1024}},
	} {
		if diff := cmp.Diff(tt.want, LimitsFor(tt.descriptors)); diff != "" {
			t.Errorf("LimitsFor(%d) (-want +got):\n%s", tt.descriptors, diff)
		}
	}
}

// A script: each step is an address that connects, "+" before one whose last
// connection sends a request, "-" before one whose oldest connection ends.
func TestWhoGivesWay(t *testing.T) {
	t.Parallel()
	limits := Limits{Total: 4, PerAddress: 3, Pending: 2}
	for _, tt := range []struct {
		name  string
		steps []string
		open  []string // still open at the end, by address in the order in which they came
	}{
		{"pending ones give way to the next", []string{"::1", "::1", "::1", "::1"}, []string{"::1", "::1"}},
		{"of the address with the most", []string{"::1", "::2", "::2"}, []string{"::2", "::2"}},
		{"the oldest of the flood", []string{"::2", "::2", "::1", "::1"}, []string{"::1", "::1"}},
		{"those with requests stay", []string{"::1", "+::1", "::1", "+::1", "::1", "+::1", "::1"}, []string{"::1", "::1", "::1"}},
		{"others have room beside a greedy address", []string{"::1", "+::1", "::1", "+::1", "::1", "+::1", "::1", "::2"}, []string{"::1", "::1", "::1", "::2"}},
		{"nobody has room beyond the total", []string{"::1", "+::1", "::1", "+::1", "::1", "+::1", "::2", "+::2", "::3"}, []string{"::1", "::1", "::1", "::2"}},
		{"what ends makes room", []string{"::1", "+::1", "::1", "+::1", "::1", "+::1", "-::1", "::1"}, []string{"::1", "::1", "::1"}},
		{"4 in 6 is 4", []string{"10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1"}, []string{"::ffff:10.0.0.1", "10.0.0.1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := New(nil, limits)
			var all []*conn
			of := func(from string, last bool) (found *conn) {
				for _, c := range all {
					r := c.Conn.(*remote)
					if r.from == from && !r.closed && (found == nil || last) {
						found = c
					}
				}
				return found
			}
			for _, step := range tt.steps {
				switch step[0] {
				case '+':
					l.ConnState(of(step[1:], true), http.StateActive)
				case '-':
					_ = of(step[1:], false).Close()
				default:
					c, evicted := l.admit(&remote{from: step})
					if evicted != nil {
						_ = evicted.Close()
					}
					if c != nil {
						all = append(all, c)
					}
				}
			}
			var open []string
			for _, c := range all {
				if r := c.Conn.(*remote); !r.closed {
					open = append(open, r.from)
				}
			}
			if diff := cmp.Diff(tt.open, open); diff != "" {
				t.Errorf("open connections (-want +got):\n%s", diff)
			}
			for _, c := range all {
				_ = c.Close()
			}
			if l.Open() != 0 || l.pending != 0 || len(l.clients) != 0 {
				t.Errorf("%d connections and %d clients are counted after all have ended", l.Open(), len(l.clients))
			}
		})
	}
}

func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	below, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(below, Limits{Total: 16, PerAddress: 12, Pending: 4})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Listener.Close()
	s.Listener, s.Config.ConnState, s.EnableHTTP2 = l, l.ConnState, true
	s.StartTLS()
	t.Cleanup(s.Close)
	var silent sync.WaitGroup
	for range 200 {
		c, err := net.Dial("tcp", below.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		silent.Go(func() { _, _ = io.Copy(io.Discard, c) })
	}
	for _, h2 := range []bool{true, false} {
		client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: h2, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		for range 5 {
			r, err := client.Get(s.URL)
			if err != nil {
				t.Fatalf("HTTP/2 %v: %v", h2, err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
	}
	if l.Refused() < 190 || l.Open() > 6 {
		t.Errorf("%d refused, %d open", l.Refused(), l.Open())
	}
}
