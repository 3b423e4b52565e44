package cni

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
	"github.com/berth-dev/berth/nodeagent/network/networktest"
	"github.com/berth-dev/berth/nodeagent/tool"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// needPlugins skips where pods can not be connected; in CI they must.
func needPlugins(t testing.TB) {
	t.Helper()
	netnstest.Need(t, "ip", "bridge")
	_, err := tool.FindPlugins(plugins)
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

// host is a network namespace that plays a machine.
type host struct{ netnstest.NS }

func newHost(t testing.TB) host {
	t.Helper()
	needPlugins(t)
	return host{netnstest.New(t)}
}

// wire connects hosts by a bridge in a namespace between them, and gives each
// an address of 192.0.2.0/24.
func wire(t *testing.T, hosts ...host) {
	t.Helper()
	middle := newHost(t)
	middle.Run(t, "ip link add name switch type bridge")
	middle.Run(t, "ip link set dev switch up")
	for i, h := range hosts {
		port := fmt.Sprint("v", i)
		netnstest.Link(t, middle.NS, port, h.NS, "up0")
		middle.Run(t, "ip link set dev "+port+" master switch")
		h.Run(t, fmt.Sprintf("ip addr add 192.0.2.%d/24 dev up0", i+1))
	}
}

// open opens a network in the host's namespace.
func (h host) open(t testing.TB, change func(*Config)) (*Network, error) {
	t.Helper()
	cfg := Config{
		PodRanges: []netip.Prefix{netip.MustParsePrefix("10.99.1.0/24")}, State: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if change != nil {
		change(&cfg)
	}
	var n *Network
	var err error
	h.Within(func() { n, err = Open(t.Context(), cfg) })
	return n, err
}

func (h host) mustOpen(t testing.TB, change func(*Config)) *Network {
	t.Helper()
	n, err := h.open(t, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Within(func() {
			if err := n.Sweep(context.Background(), network.Nothing); err != nil {
				t.Error(err)
			}
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	})
	return n
}

func (h host) add(t *testing.T, n *Network, p network.Pod) (network.Attachment, error) {
	t.Helper()
	var a network.Attachment
	var err error
	h.Within(func() { a, err = n.Add(t.Context(), p) })
	return a, err
}

func (h host) mustAdd(t *testing.T, n *Network, p network.Pod) network.Attachment {
	t.Helper()
	a, err := h.add(t, n, p)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func pod(name string) network.Pod {
	return network.Pod{ID: "uid-" + name + "-0", Namespace: "default", Name: name, UID: "uid-" + name}
}

// serve answers connections in a namespace with the client's address.
func serve(t *testing.T, netns, addr string) {
	t.Helper()
	netnstest.NS(netns).Within(func() {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				ip, _, _ := net.SplitHostPort(c.RemoteAddr().String())
				io.WriteString(c, ip)
				c.Close()
			}
		}()
	})
}

// ask connects from a namespace and gives what the server said, which is the
// address that it saw.
func ask(t *testing.T, netns, addr string) (string, error) {
	t.Helper()
	var text []byte
	var err error
	netnstest.NS(netns).Within(func() {
		var c net.Conn
		if c, err = net.DialTimeout("tcp4", addr, 5*time.Second); err != nil {
			return
		}
		defer c.Close()
		text, err = io.ReadAll(c)
	})
	return string(text), err
}

func mustAsk(t *testing.T, netns, addr, want string) {
	t.Helper()
	got, err := ask(t, netns, addr)
	if err != nil || got != want {
		t.Errorf("%s saw %q, %v; want %q", addr, got, err, want)
	}
}

func TestConformance(t *testing.T) {
	needPlugins(t)
	networktest.Run(t, func(t *testing.T) network.Network {
		n, err := Open(t.Context(), Config{
			PodRanges: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")}, State: t.TempDir(),
			Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return n
	})
}

func TestPodsReachEachOtherAndTheirHost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := h.mustOpen(t, nil)
	a, b := h.mustAdd(t, n, pod("a")), h.mustAdd(t, n, pod("b"))
	serve(t, b.NetNS, ":80")
	mustAsk(t, a.NetNS, b.IPs[0].String()+":80", a.IPs[0].String())
	mustAsk(t, b.NetNS, "127.0.0.1:80", "127.0.0.1") // lo is up
	mustAsk(t, string(h.NS), b.IPs[0].String()+":80", "10.99.1.1")
}

func TestHostPort(t *testing.T) {
	t.Parallel()
	h, outside := newHost(t), newHost(t)
	wire(t, h, outside)
	n := h.mustOpen(t, nil)
	p := pod("web")
	p.Ports = []network.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "TCP"}}
	web := h.mustAdd(t, n, p)
	serve(t, web.NetNS, ":80")
	mustAsk(t, string(outside.NS), "192.0.2.1:8080", "192.0.2.2")
	if _, err := ask(t, string(h.NS), "127.0.0.1:8080"); err != nil {
		t.Errorf("from the machine itself: %v", err)
	}
	mustAsk(t, web.NetNS, "192.0.2.1:8080", "10.99.1.1") // itself
	// Another process finds the pod's ports, and no services yet.
	n = h.mustOpen(t, func(c *Config) { c.State = n.cfg.State })
	h.Within(func() {
		if err := n.Forward().Apply(forward.NewChange(), true); err != nil {
			t.Fatal(err)
		}
	})
	mustAsk(t, string(outside.NS), "192.0.2.1:8080", "192.0.2.2")
	if sent := n.Forward().Sent(); sent != 0 {
		t.Errorf("a process that finds all as it should be made %d changes", sent)
	}
	h.Within(func() {
		if err := n.Del(t.Context(), p.ID); err != nil {
			t.Fatal(err)
		}
	})
	if got, err := ask(t, string(outside.NS), "192.0.2.1:8080"); err == nil {
		t.Errorf("after Del the port still answers %q", got)
	}
}

func TestHostPortsOfOneAddress(t *testing.T) {
	t.Parallel()
	h, outside := newHost(t), newHost(t)
	wire(t, h, outside)
	n := h.mustOpen(t, nil)
	for name, ip := range map[string]string{"a": "127.0.0.1", "b": "192.0.2.1"} {
		p := pod(name)
		p.Ports = []network.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp", HostIP: ip}}
		serve(t, h.mustAdd(t, n, p).NetNS, ":80")
	}
	mustAsk(t, string(outside.NS), "192.0.2.1:8080", "192.0.2.2")
	mustAsk(t, string(h.NS), "127.0.0.1:8080", "10.99.1.1")
	for _, wrong := range []network.PortMapping{{HostPort: 70000, ContainerPort: 80}, {HostPort: 80, ContainerPort: 80, Protocol: "icmp"}, {HostPort: 80, ContainerPort: 80, HostIP: "here"}} {
		p := pod("wrong")
		p.Ports = []network.PortMapping{wrong}
		if _, err := h.add(t, n, p); err == nil {
			t.Errorf("Add with %+v succeeded", wrong)
		}
	}
}

func TestNodesRouteToEachOthersPodsAndMasqueradeTheRest(t *testing.T) {
	t.Parallel()
	one, two, outside := newHost(t), newHost(t), newHost(t)
	wire(t, one, two, outside)
	cluster := []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16")}
	n1 := one.mustOpen(t, func(c *Config) { c.ClusterRanges = cluster })
	n2 := two.mustOpen(t, func(c *Config) {
		c.ClusterRanges, c.PodRanges = cluster, []netip.Prefix{netip.MustParsePrefix("10.99.2.0/24")}
	})
	peers := func(h host, n *Network, peers ...Peer) {
		t.Helper()
		h.Within(func() {
			if err := n.SetPeers(t.Context(), nil, peers); err != nil {
				t.Fatal(err)
			}
		})
	}
	for range 2 { // the second time changes nothing
		peers(one, n1, Peer{netip.MustParsePrefix("10.99.2.0/24"), netip.MustParseAddr("192.0.2.2")},
			Peer{netip.MustParsePrefix("10.99.7.0/24"), netip.MustParseAddr("192.0.2.3")})
	}
	peers(two, n2, Peer{netip.MustParsePrefix("10.99.1.0/24"), netip.MustParseAddr("192.0.2.1")})
	a, b := one.mustAdd(t, n1, pod("a")), two.mustAdd(t, n2, pod("b"))
	serve(t, b.NetNS, ":80")
	serve(t, string(outside.NS), ":80")
	mustAsk(t, a.NetNS, b.IPs[0].String()+":80", a.IPs[0].String())
	mustAsk(t, a.NetNS, "192.0.2.3:80", "192.0.2.1")

	peers(one, n1) // all others are gone
	if _, err := ask(t, a.NetNS, b.IPs[0].String()+":80"); err == nil {
		t.Error("a node that is gone is still routed to")
	}
}

// TestAServiceOfAnotherNode: its only backend is elsewhere, and its node port
// answers here; pods keep their addresses, others get this machine's.
func TestAServiceOfAnotherNode(t *testing.T) {
	t.Parallel()
	one, two, outside := newHost(t), newHost(t), newHost(t)
	wire(t, one, two, outside)
	ranges := func(own string) func(*Config) {
		return func(c *Config) {
			c.PodRanges, c.ClusterRanges = []netip.Prefix{netip.MustParsePrefix(own)}, []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16")}
		}
	}
	n1, n2 := one.mustOpen(t, ranges("10.99.1.0/24")), two.mustOpen(t, ranges("10.99.2.0/24"))
	one.Run(t, "ip route add 10.99.2.0/24 via 192.0.2.2")
	two.Run(t, "ip route add 10.99.1.0/24 via 192.0.2.1")
	two.Run(t, "ip route add default via 192.0.2.3")
	a, b := one.mustAdd(t, n1, pod("a")), two.mustAdd(t, n2, pod("b"))
	serve(t, b.NetNS, ":80")
	to := forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(b.IPs[0], 80)}}
	outsiders := to
	outsiders.Masquerade = true
	change := forward.NewChange()
	change.Fronts[forward.Front{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: forward.TCP}] = &forward.Entry{Inside: to}
	change.Fronts[forward.Front{Addr: netip.IPv4Unspecified(), Port: 30000, Protocol: forward.TCP}] = &forward.Entry{Inside: outsiders}
	if err := n1.Forward().Apply(change, true); err != nil {
		t.Fatal(err)
	}
	mustAsk(t, a.NetNS, "10.96.0.1:80", a.IPs[0].String())
	mustAsk(t, string(outside.NS), "192.0.2.1:30000", "192.0.2.1")
	mustAsk(t, string(one.NS), "192.0.2.1:30000", "192.0.2.1")
}

func TestLeasesOfACrashAreFreed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := h.mustOpen(t, func(c *Config) { c.PodRanges = []netip.Prefix{netip.MustParsePrefix("10.99.1.0/29")} })
	// Five pods fill the range; then their namespaces and results are lost.
	for i := range 5 {
		a := h.mustAdd(t, n, pod(fmt.Sprint(i)))
		if err := removeNetns(a.NetNS); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(n.cfg.resultDir()); err != nil {
		t.Fatal(err)
	}
	_, err := h.add(t, n, pod("more"))
	if err == nil || !strings.Contains(err.Error(), "range is used up") {
		t.Errorf("Add to a full range: %v, want what to do", err)
	}
	again := h.mustAdd(t, n, pod("1")) // its own lease is in the way no more
	if len(again.IPs) != 1 {
		t.Errorf("Add = %+v", again)
	}
	h.Within(func() {
		if err := n.Sweep(t.Context(), func() []string { return []string{pod("1").ID} }); err != nil {
			t.Fatal(err)
		}
	})
	for i := range 4 {
		h.mustAdd(t, n, pod(fmt.Sprint("new", i)))
	}
}

func TestOpenRefusesRangesThatAreTaken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, setUp, want string
	}{
		{"another interface has it", "link add other type bridge; addr add 10.99.0.1/16 dev other; link set other up", "overlaps 10.99.0.0/16 of interface other"},
		{"our bridge has another, with pods on it", "link add berth0 type bridge; addr add 10.77.0.1/24 dev berth0; link set berth0 up; link add v0 type veth peer name v1; link set v0 master berth0", "bridge berth0 has the range 10.77.0.0/24"},
		{"our bridge has another, left over", "link add berth0 type bridge; addr add 10.77.0.1/24 dev berth0; link set berth0 up", ""},
		{"our bridge has it", "link add berth0 type bridge; addr add 10.99.1.1/24 dev berth0; link set berth0 up", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			for line := range strings.SplitSeq(tt.setUp, ";") {
				h.Run(t, "ip "+line)
			}
			_, err := h.open(t, nil)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("Open: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Open: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	prefixes := func(s ...string) (out []netip.Prefix) {
		for _, p := range s {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no range", Config{}, "no pod range"},
		{"a range with host bits", Config{PodRanges: prefixes("10.0.0.1/24")}, "want 10.0.0.0/24"},
		{"a range of one address", Config{PodRanges: prefixes("10.0.0.0/32")}, "no room"},
		{"two of one family", Config{PodRanges: prefixes("10.0.0.0/24", "10.0.1.0/24")}, "at most one of each family"},
		{"a long name", Config{PodRanges: prefixes("10.0.0.0/24"), Bridge: "a-name-that-is-too-long"}, "longer than an interface's"},
		{"two families", Config{PodRanges: prefixes("10.0.0.0/24", "fd00::/64")}, ""},
	}
	for _, tt := range tests {
		_, err := tt.cfg.withDefaults()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestIDsThatAreNoFileNamesAreRefused(t *testing.T) {
	t.Parallel()
	n := &Network{}
	for _, id := range []string{"", ".", "..", "a/b", "a\x00"} {
		if err := n.Del(t.Context(), id); err == nil {
			t.Errorf("Del(%q) succeeded", id)
		}
	}
}

// TestTheBridgeKeepsItsAddress: pods remember their gateway's hardware address. A
// bridge that takes the lowest of its ports would have another when a pod comes or
// goes, and what pods send meanwhile would be lost.
func TestTheBridgeKeepsItsAddress(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := h.mustOpen(t, nil)
	address := func() string { return h.link(t, "berth0").Attrs().HardwareAddr.String() }
	want := address()
	for i := range 3 {
		h.mustAdd(t, n, pod(fmt.Sprint(i)))
		if got := address(); got != want {
			t.Fatalf("with %d pods the bridge is at %s, was at %s", i+1, got, want)
		}
	}
	h.Within(func() {
		if err := n.Sweep(t.Context(), network.Nothing); err != nil {
			t.Error(err)
		}
	})
	if got := address(); got != want {
		t.Errorf("without pods the bridge is at %s, was at %s", got, want)
	}
	again := h.mustOpen(t, func(c *Config) { c.State = n.cfg.State })
	h.mustAdd(t, again, pod("last"))
	if got := address(); got != want {
		t.Errorf("after a restart the bridge is at %s, was at %s", got, want)
	}
}

// What listens at the pod's loopback alone takes no connections of others.
func TestListenersAreThoseThatOthersReach(t *testing.T) {
	h := newHost(t)
	n := h.mustOpen(t, nil)
	a := h.mustAdd(t, n, pod("a"))
	want := func(want ...uint16) {
		t.Helper()
		if got, err := n.Listeners(pod("a").ID); err != nil || !slices.Equal(got, want) {
			t.Errorf("the pod listens at %v, %v; want %v", got, err, want)
		}
	}
	want()
	serve(t, a.NetNS, "127.0.0.1:81")
	want()
	serve(t, a.NetNS, a.IPs[0].String()+":443")
	serve(t, a.NetNS, ":80")
	if _, err := ask(t, a.NetNS, a.IPs[0].String()+":80"); err != nil { // which leaves a connection behind
		t.Fatal(err)
	}
	want(80, 443)
	if got, err := n.Listeners("absent-0"); err == nil {
		t.Errorf("a pod that is not attached listens at %v", got)
	}
}
