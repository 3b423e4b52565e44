package cni

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	peers := func(pairs ...string) (out []Peer) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, Peer{netip.MustParsePrefix(pairs[i]), netip.MustParseAddr(pairs[i+1])})
		}
		return out
	}
	own := []netip.Prefix{netip.MustParsePrefix("10.99.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}
	self := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	tests := []struct {
		what        string
		peers, want []Peer
		err         string
	}{
		{"two families", peers("10.99.2.0/24", "192.0.2.2", "fd00:2::/64", "2001:db8::2"), peers("fd00:2::/64", "2001:db8::2", "10.99.2.0/24", "192.0.2.2"), ""},
		{"a range of the other family", peers("10.99.2.0/24", "2001:db8::2"), nil, "addresses do not fit"},
		{"our own range", peers("10.99.1.0/24", "192.0.2.2"), nil, "overlaps this node's own range 10.99.1.0/24"},
		{"one around ours", peers("10.99.0.0/16", "192.0.2.2"), nil, "overlaps this node's own range"},
		{"everything", peers("0.0.0.0/0", "192.0.2.2"), nil, "overlaps this node's own range"},
		{"a part of ours", peers("fd00:1::/96", "2001:db8::2"), nil, "overlaps this node's own range"},
		{"the range that nodes are in", peers("192.0.2.0/24", "203.0.113.9"), nil, "the node 192.0.2.1 has an address in it"},
		{"and that another is in", peers("203.0.113.0/24", "192.0.2.2", "10.99.3.0/24", "203.0.113.3"), peers("10.99.3.0/24", "203.0.113.3"), "the node 203.0.113.3 has an address in it"},
		{"two have the same", peers("10.99.2.0/24", "192.0.2.3", "10.99.2.0/24", "192.0.2.2"), peers("10.99.2.0/24", "192.0.2.2"), "via 192.0.2.3: it overlaps 10.99.2.0/24 via 192.0.2.2"},
		{"one has part of another's", peers("10.99.0.0/17", "192.0.2.2", "10.98.0.0/15", "192.0.2.2", "10.99.192.0/24", "192.0.2.3"), peers("10.99.192.0/24", "192.0.2.3"), "overlaps"},
		{"one twice", peers("10.99.2.7/24", "192.0.2.2", "10.99.2.0/24", "192.0.2.2"), peers("10.99.2.0/24", "192.0.2.2"), ""},
	}
	for _, tt := range tests {
		got, errs := choose(own, self, tt.peers)
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s: chosen (-want +got):\n%s", tt.what, diff)
		}
		if text := fmt.Sprint(errs); (tt.err == "") != (len(errs) == 0) || !strings.Contains(text, tt.err) {
			t.Errorf("%s: errors %v, want %q", tt.what, errs, tt.err)
		}
	}
}

func TestHardwareIsANodesOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]netip.Addr{}
	for _, text := range []string{"192.0.2.1", "192.0.2.2", "192.0.3.1", "2001:db8::1", "2001:db8::2", "2001:db8:1::1"} {
		a := netip.MustParseAddr(text)
		mac := hardware(a)
		if other, ok := seen[mac.String()]; ok || mac[0]&3 != 2 || len(mac) != 6 {
			t.Errorf("hardware(%s) = %s (also of %v): want an individual, locally administered one", a, mac, other)
		}
		seen[mac.String()] = a
	}
}

// site is two networks behind a router that knows nothing of pods: one and three
// are on the first, two is on the second.
//
//	one   .1 ─┐ 192.0.2.0/24                  198.51.100.0/24
//	three .3 ─┴─ .254 router .254 ─── .2 two
type site struct {
	one, two, three host
	n1, n2, n3      *Network
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{one: newHost(t), two: newHost(t), three: newHost(t)}
	router := newHost(t)
	for _, line := range []string{
		"link add name left type bridge", "addr add 192.0.2.254/24 dev left", "addr add 2001:db8:a::fe/64 dev left nodad", "link set dev left up",
		"link add name right type bridge", "addr add 198.51.100.254/24 dev right", "addr add 2001:db8:b::fe/64 dev right nodad", "link set dev right up",
	} {
		router.Run(t, "ip "+line)
	}
	router.Within(func() {
		for _, file := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"} {
			if err := os.WriteFile(file, []byte("1"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	s.one.plug(t, router, "left", "192.0.2.1", "192.0.2.254", "2001:db8:a::1", "2001:db8:a::fe")
	s.three.plug(t, router, "left", "192.0.2.3", "192.0.2.254", "2001:db8:a::3", "2001:db8:a::fe")
	s.two.plug(t, router, "right", "198.51.100.2", "198.51.100.254", "2001:db8:b::2", "2001:db8:b::fe")
	open := func(h host, i int) *Network {
		return h.mustOpen(t, func(c *Config) {
			c.PodRanges = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.99.%d.0/24", i)), netip.MustParsePrefix(fmt.Sprintf("fd99:%d::/64", i))}
			c.ClusterRanges = []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16"), netip.MustParsePrefix("fd99::/16")}
		})
	}
	s.n1, s.n2, s.n3 = open(s.one, 1), open(s.two, 2), open(s.three, 3)
	return s
}

// plug connects a host to a bridge of another.
func (h host) plug(t testing.TB, to host, bridge, four, router4, six, router6 string) {
	t.Helper()
	port := "v" + strings.ReplaceAll(four, ".", "")
	netnstest.Link(t, to.NS, port, h.NS, "up0")
	to.Run(t, "ip link set dev "+port+" master "+bridge)
	for _, line := range []string{
		"addr add " + four + "/24 dev up0", "addr add " + six + "/64 dev up0 nodad",
		"route add default via " + router4, "-6 route add default via " + router6,
	} {
		h.Run(t, "ip "+line)
	}
}

var (
	peer1 = []Peer{{netip.MustParsePrefix("10.99.1.0/24"), netip.MustParseAddr("192.0.2.1")}, {netip.MustParsePrefix("fd99:1::/64"), netip.MustParseAddr("2001:db8:a::1")}}
	peer2 = []Peer{{netip.MustParsePrefix("10.99.2.0/24"), netip.MustParseAddr("198.51.100.2")}, {netip.MustParsePrefix("fd99:2::/64"), netip.MustParseAddr("2001:db8:b::2")}}
	peer3 = []Peer{{netip.MustParsePrefix("10.99.3.0/24"), netip.MustParseAddr("192.0.2.3")}, {netip.MustParsePrefix("fd99:3::/64"), netip.MustParseAddr("2001:db8:a::3")}}
)

// setPeers tells a network of its peers; self are the addresses of the node.
func (h host) setPeers(t testing.TB, n *Network, self []Peer, peers ...[]Peer) error {
	t.Helper()
	var all []Peer
	for _, p := range peers {
		all = append(all, p...)
	}
	var own []netip.Addr
	for _, p := range self {
		own = append(own, p.Via)
	}
	var err error
	h.Within(func() { err = n.SetPeers(t.Context(), own, all) })
	return err
}

func (s *site) connect(t testing.TB) {
	t.Helper()
	for _, err := range []error{
		s.one.setPeers(t, s.n1, peer1, peer2, peer3), s.two.setPeers(t, s.n2, peer2, peer1, peer3), s.three.setPeers(t, s.n3, peer3, peer1, peer2),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// link finds a device in the host's namespace; nil if there is none.
func (h host) link(t *testing.T, name string) (link netlink.Link) {
	t.Helper()
	h.Within(func() {
		var err error
		if link, err = netlink.LinkByName(name); err != nil {
			link = nil
		}
	})
	return link
}

func TestPodsReachEachOtherBehindARouter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 2 { // the second time changes nothing
		s.connect(t)
	}
	a, b, c := s.one.mustAdd(t, s.n1, pod("a")), s.two.mustAdd(t, s.n2, pod("b")), s.three.mustAdd(t, s.n3, pod("c"))
	for _, netns := range []string{a.NetNS, b.NetNS, c.NetNS} {
		settled(t, netns)
		serve(t, netns, ":80")
	}
	at := func(a netip.Addr) string { return netip.AddrPortFrom(a, 80).String() }
	for i := range 2 { // IPv4, IPv6: each sees the other's own address
		mustAskAt(t, a.NetNS, at(b.IPs[i]), a.IPs[i].String())
		mustAskAt(t, b.NetNS, at(a.IPs[i]), b.IPs[i].String())
		mustAskAt(t, a.NetNS, at(c.IPs[i]), a.IPs[i].String())
		mustAskAt(t, b.NetNS, at(c.IPs[i]), b.IPs[i].String())
	}
	mustAskAt(t, string(s.one.NS), at(b.IPs[0]), "10.99.1.0") // the machine itself speaks through the tunnel
	mustAskAt(t, string(s.one.NS), at(b.IPs[1]), "fd99:1::")
	mustAskAt(t, string(s.one.NS), at(c.IPs[0]), "192.0.2.1")

	link, ok := s.one.link(t, tunnel4.name).(*netlink.Vxlan)
	if !ok || link.MTU != 1450 || link.Learning || link.VxlanId != 1 || link.Port != 8472 || s.one.link(t, tunnel6.name).Attrs().MTU != 1430 {
		t.Errorf("tunnel = %+v", link)
	}
	if fdb := s.one.Run(t, "bridge fdb show dev berth.1"); !strings.Contains(fdb, "dst 198.51.100.2") || strings.Contains(fdb, "192.0.2.3") {
		t.Errorf("the tunnel knows:\n%s\nwant the node behind the router alone", fdb)
	}
	if route := s.one.Run(t, "ip route show 10.99.3.0/24"); !strings.Contains(route, "via 192.0.2.3 dev up0") {
		t.Errorf("the route to the node on the link: %s", route)
	}
	large(t, a.NetNS, b.NetNS, b.IPs[0])

	// A restart finds all as it is.
	index := link.Index
	s.one.Within(func() {
		if _, err := Open(t.Context(), s.n1.cfg); err != nil {
			t.Errorf("opened again: %v", err)
		}
	})
	s.connect(t)
	if s.one.link(t, tunnel4.name).Attrs().Index != index {
		t.Error("the tunnel was made anew")
	}

	// The node goes, and the tunnel with it; the other stays.
	if err := s.one.setPeers(t, s.n1, peer1, peer3); err != nil {
		t.Fatal(err)
	}
	if s.one.link(t, tunnel4.name) != nil || s.one.link(t, tunnel6.name) != nil {
		t.Error("nobody needs the tunnel, and it is there")
	}
	if routes := s.one.Run(t, "ip route show proto 182") + s.one.Run(t, "ip -6 route show proto 182"); strings.Count(routes, "\n") != 2 {
		t.Errorf("left routes:\n%s", routes)
	}
	mustAskAt(t, a.NetNS, at(c.IPs[0]), a.IPs[0].String())
}

// TestTunnelFollowsChanges: of who is behind it, of our own address, of what
// others did to it.
func TestTunnelFollowsChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.connect(t)
	first := s.one.link(t, tunnel4.name).Attrs().Index
	s.one.Run(t, "ip neigh del 10.99.2.0 dev berth.1")
	s.one.Run(t, "ip neigh add 10.99.9.0 lladdr 0a:00:00:00:00:01 dev berth.1 nud permanent")
	s.one.Run(t, "ip route del 10.99.2.0/24")
	s.one.Run(t, "ip link set berth.1 mtu 1300")
	s.one.Run(t, "ip addr add 10.99.77.0/32 dev berth.1")
	moved := []Peer{{peer2[0].Range, netip.MustParseAddr("198.51.100.7")}, peer2[1]}
	if err := s.one.setPeers(t, s.n1, peer1, moved, peer3); err != nil {
		t.Fatal(err)
	}
	got := s.one.Run(t, "ip neigh show dev berth.1 nud permanent") + s.one.Run(t, "bridge fdb show dev berth.1") +
		s.one.Run(t, "ip addr show dev berth.1") + s.one.Run(t, "ip route show 10.99.2.0/24")
	for _, want := range []string{"10.99.2.0 lladdr 0a:62:c6:33:64:07", "dst 198.51.100.7", "mtu 1450", "inet 10.99.1.0/32", "via 10.99.2.0 dev berth.1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	for _, gone := range []string{"198.51.100.2", "10.99.9.0", "10.99.77.0"} {
		if strings.Contains(got, gone) {
			t.Errorf("%q is left in\n%s", gone, got)
		}
	}
	if s.one.link(t, tunnel4.name).Attrs().Index != first {
		t.Error("the tunnel was made anew")
	}
	s.one.Run(t, "ip addr add 192.0.2.9/24 dev up0")
	self := []Peer{{Via: netip.MustParseAddr("192.0.2.9")}, peer1[1]}
	if err := s.one.setPeers(t, s.n1, self, peer2); err != nil {
		t.Fatal(err)
	}
	if link := s.one.link(t, tunnel4.name).(*netlink.Vxlan); !link.SrcAddr.Equal(net.ParseIP("192.0.2.9")) || link.HardwareAddr.String() != "0a:62:c0:00:02:09" {
		t.Errorf("with another address of our own: %+v", link)
	}
}

// TestForeignTunnel: another pod network has ours. What is on the link is reached
// all the same.
func TestForeignTunnel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.one.Run(t, "ip link add flannel.1 type vxlan id 1 dev up0 dstport 8472")
	err := s.one.setPeers(t, s.n1, peer1, peer2[:1], peer3[:1])
	if err == nil || !strings.Contains(err.Error(), "another vxlan device has the network 1 at port 8472") || !strings.Contains(err.Error(), "198.51.100.2") {
		t.Errorf("SetPeers: %v", err)
	}
	if route := s.one.Run(t, "ip route show proto 182"); !strings.Contains(route, "10.99.3.0/24 via 192.0.2.3") || strings.Contains(route, "10.99.2.0") {
		t.Errorf("routes:\n%s", route)
	}
	if s.one.link(t, "flannel.1") == nil {
		t.Error("the other network's device is gone")
	}
	if err := s.one.setPeers(t, s.n1, nil, peer2[:1]); err == nil || !strings.Contains(err.Error(), "tells no address") {
		t.Errorf("without an address of our own: %v", err)
	}
}

// settled waits until the addresses of a pod can be used.
func settled(t *testing.T, netns string) {
	t.Helper()
	polltest.Until(t, "none of the pod's addresses is tentative", func() bool {
		var out []byte
		netnstest.NS(netns).Within(func() { out, _ = exec.Command("ip", "-6", "addr", "show", "tentative").Output() })
		return len(out) == 0
	})
}

func mustAskAt(t *testing.T, netns, addr, want string) {
	t.Helper()
	var text []byte
	var err error
	netnstest.NS(netns).Within(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var c net.Conn
		network := "tcp4"
		if strings.HasPrefix(addr, "[") {
			network = "tcp6"
		}
		if c, err = (&net.Dialer{}).DialContext(ctx, network, addr); err != nil {
			return
		}
		defer c.Close()
		text, err = io.ReadAll(c)
	})
	if err != nil || string(text) != want {
		t.Errorf("%s saw %q, %v; want %q", addr, text, err, want)
	}
}

// large sends more than a packet, which the tunnel's headers make too long for
// the pods' links.
func large(t *testing.T, from, to string, at netip.Addr) {
	t.Helper()
	const size = 1 << 20
	got := make(chan int64, 1)
	netnstest.NS(to).Within(func() {
		l, err := net.Listen("tcp4", ":81")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			n, _ := io.Copy(io.Discard, c) // what did not come is missing in n
			got <- n
		}()
	})
	netnstest.NS(from).Within(func() {
		c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(at, 81).String(), 10*time.Second)
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Error(err)
		}
		if _, err := c.Write(make([]byte, size)); err != nil {
			t.Error(err)
		}
	})
	if n := <-got; n != size {
		t.Errorf("%d bytes of %d came", n, size)
	}
}
