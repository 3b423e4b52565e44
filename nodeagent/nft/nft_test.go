package nft

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
)

var vip = netip.MustParseAddr("10.96.0.1")

// to sends to some pods' port 80.
func to(pods ...int) forward.Target {
	var out forward.Target
	for _, i := range pods {
		out.Backends = append(out.Backends, netip.AddrPortFrom(podIP(i), 80))
	}
	return out
}

func tcp(a netip.Addr, port uint16) forward.Front {
	return forward.Front{Addr: a, Port: port, Protocol: forward.TCP}
}

func nodePort(port uint16) forward.Front { return tcp(netip.IPv4Unspecified(), port) }

// change is one of fronts, with all pods' addresses as hairpins.
func change(fronts map[forward.Front]*forward.Entry) forward.Change {
	c := forward.NewChange()
	c.Fronts = fronts
	for i := range 3 {
		c.Hairpin[podIP(i)], c.Hairpin[podIP6(i)] = true, true
	}
	c.Virtual[vip] = true
	return c
}

func (n *node) must(t testing.TB, c forward.Change, complete bool) {
	t.Helper()
	if err := n.Apply(c, complete); err != nil {
		t.Fatal(err)
	}
}

func TestClusterIP(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 8080): {Inside: to(1, 2)}}), true)
	seen := map[string]int{}
	for range 20 {
		server, client, err := n.pods[0].ask("10.96.0.1:8080")
		if err != nil || client != podIP(0).String() {
			t.Fatalf("from a pod: %s saw %q, %v", server, client, err)
		}
		seen[server]++
	}
	if len(seen) != 2 || seen[podIP(0).String()] > 0 {
		t.Errorf("answered by %v, want both backends", seen)
	}
	if server, client, err := n.ask("10.96.0.1:8080"); err != nil || client != "10.99.1.1" {
		t.Errorf("from the machine: %s saw %q, %v", server, client, err)
	}
}

// sees asks, and wants an answer from one of some servers, who saw a client.
func sees(t *testing.T, from machine, to, client string, servers ...string) {
	t.Helper()
	server, saw, err := from.ask(to)
	if err != nil || saw != client {
		t.Errorf("%s: %q saw %q, %v; want %s", to, server, saw, err, client)
		return
	}
	for _, s := range servers {
		if s == server {
			return
		}
	}
	t.Errorf("%s: answered by %s, want one of %v", to, server, servers)
}

func refused(t *testing.T, from machine, to string) {
	t.Helper()
	if _, _, err := from.ask(to); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s: %v, want refused", to, err)
	}
}

func dropped(t *testing.T, from machine, to string) {
	t.Helper()
	var timeout net.Error
	if _, _, err := from.ask(to); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%s: %v, want no answer", to, err)
	}
}

const bridgeIP = "10.99.1.1"

func always(t forward.Target) forward.Target { t.Masquerade = true; return t }

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	lb := netip.MustParseAddr("198.51.100.1")
	n.must(t, change(map[forward.Front]*forward.Entry{
		tcp(vip, 8080):  {Inside: forward.Target{Verdict: forward.Reject}},
		tcp(vip, 8081):  {Inside: forward.Target{Verdict: forward.Drop}},
		nodePort(30000): {Inside: forward.Target{Verdict: forward.Reject}},
		tcp(lb, 80):     {Inside: to(0), Outside: &forward.Target{Verdict: forward.Drop}},
	}), true)
	refused(t, n.pods[0], "10.96.0.1:8080")
	refused(t, n.machine, "10.96.0.1:8080")
	dropped(t, n.pods[0], "10.96.0.1:8081")
	refused(t, n.pods[0], "10.96.0.1:9999") // no port of the service
	refused(t, n.outside, nodeIP+":30000")
	dropped(t, n.outside, "198.51.100.1:80")
	sees(t, n.machine, "198.51.100.1:80", bridgeIP, podIP(0).String())
}

func TestHairpin(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	six := netip.MustParseAddr("fd00:96::1")
	n.must(t, change(map[forward.Front]*forward.Entry{
		tcp(vip, 80): {Inside: to(0)},
		tcp(six, 80): {Inside: forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(podIP6(0), 80)}}},
	}), true)
	sees(t, n.pods[0], "10.96.0.1:80", bridgeIP, podIP(0).String())
	sees(t, n.pods[0], "[fd00:96::1]:80", "fd00:99::1", podIP6(0).String())
}

func TestNodePort(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	six := forward.Front{Addr: netip.IPv6Unspecified(), Port: 30000, Protocol: forward.TCP}
	n.must(t, change(map[forward.Front]*forward.Entry{
		nodePort(30000): {Inside: always(to(1, 2))},
		nodePort(30001): {Inside: to(1), Outside: &forward.Target{Backends: to(2).Backends, KeepSource: true}},
		six:             {Inside: forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(podIP6(1), 80)}, Masquerade: true}},
	}), true)
	one, two := podIP(1).String(), podIP(2).String()
	sees(t, n.outside, nodeIP+":30000", bridgeIP, one, two)
	sees(t, n.machine, nodeIP+":30000", bridgeIP, one, two)
	sees(t, n.machine, "127.0.0.1:30000", bridgeIP, one, two)
	sees(t, n.pods[0], nodeIP+":30000", bridgeIP, one, two)
	sees(t, n.outside, "[2001:db8::1]:30000", "fd00:99::1", podIP6(1).String())
	// Policy Local: from outside only those here, who see who asks; from inside
	// whoever there is.
	sees(t, n.outside, nodeIP+":30001", outsideIP, two)
	sees(t, n.pods[0], nodeIP+":30001", podIP(0).String(), one)
	sees(t, n.machine, "127.0.0.1:30001", bridgeIP, one)
}

// TestConnectionsFitTheTunnel: a client elsewhere, to whom the node forwards by its
// tunnel, is told of segments that fit it; one that stays on other links is not.
func TestConnectionsFitTheTunnel(t *testing.T) {
	t.Parallel()
	n, far := newNode(t, 1), newMachine(t)
	netnstest.Link(t, n.NS, "tunnel0", far.NS, "eth0")
	n.Run(t, "ip addr add 10.99.2.0/32 dev tunnel0", "ip link set tunnel0 mtu 1400", "ip route add 10.99.2.0/24 dev tunnel0")
	n.Run(t, "ip -6 addr add fd00:99:2::/128 dev tunnel0 nodad", "ip -6 route add fd00:99:2::/64 dev tunnel0")
	far.Run(t, "ip addr add 10.99.2.9/24 dev eth0", "ip route add default via 10.99.2.0", "ip -6 addr add fd00:99:2::9/64 dev eth0 nodad", "ip -6 route add default via fd00:99:2::")
	answer(t, far)
	n.tunnels = []string{"tunnel0"}
	n.open(t)
	n.must(t, change(map[forward.Front]*forward.Entry{nodePort(30000): {Inside: always(forward.Target{Backends: []netip.AddrPort{netip.MustParseAddrPort("10.99.2.9:80")}})}}), true)
	for to, want := range map[string]int{
		"10.99.2.9:80": 1400 - 52, nodeIP + ":30000": 1400 - 52, "[fd00:99:2::9]:80": 1400 - 72, // with time stamps
		podIP(0).String() + ":80": 1500 - 52,
	} {
		var got int
		var err error
		n.outside.Within(func() {
			var c net.Conn
			if c, err = net.DialTimeout("tcp", to, 3*time.Second); err == nil {
				defer c.Close()
				got, err = segment(c.(*net.TCPConn))
			}
		})
		if err != nil || got != want {
			t.Errorf("%s: segments of %d bytes, %v; want %d", to, got, err, want)
		}
	}
}

// segment is how much a connection sends at once.
func segment(c *net.TCPConn) (size int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { size, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	return size, errors.Join(err, failed)
}

// TestPortsOfTheLoopback: what has nobody to answer there is refused at once, and so is
// all where pods' answers would not come back.
func TestPortsOfTheLoopback(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	own := netip.MustParseAddr("127.0.0.1")
	n.must(t, change(map[forward.Front]*forward.Entry{
		nodePort(30000): {Inside: always(to(0))}, tcp(own, 30000): {Inside: to(0)},
		nodePort(30001): {Inside: always(to(0))}, tcp(own, 30001): {Inside: forward.Target{Verdict: forward.Reject}},
	}), true)
	sees(t, n.machine, "127.0.0.1:30000", bridgeIP, podIP(0).String())
	refused(t, n.machine, "127.0.0.1:30001")
	refused(t, n.machine, "127.0.0.2:30000")
	n.noLoopback = true
	n.open(t)
	n.must(t, change(map[forward.Front]*forward.Entry{nodePort(30000): {Inside: always(to(0))}, tcp(own, 30000): {Inside: to(0)}}), true)
	refused(t, n.machine, "127.0.0.1:30000")
	sees(t, n.machine, nodeIP+":30000", bridgeIP, podIP(0).String())
}

// TestAPortOfTheMachineIsNotThatOfItsDNS: a pod that has port 80 of the machine has it
// at all of its addresses but those of the cluster's DNS, which the machine has, too.
func TestAPortOfTheMachineIsNotThatOfItsDNS(t *testing.T) {
	t.Parallel()
	n := newNode(t, 2)
	n.names = []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:96::10")}
	n.Run(t, "ip addr add 10.96.0.10/32 dev lo", "ip -6 addr add fd00:96::10/128 dev lo nodad")
	n.open(t)
	answer(t, n.machine)
	six := forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(podIP6(1), 80)}}
	if err := n.Pin("pod", map[forward.Front]*forward.Entry{nodePort(80): {Inside: to(1)}, tcp(netip.IPv6Unspecified(), 80): {Inside: six}}); err != nil {
		t.Fatal(err)
	}
	n.must(t, change(nil), true)
	sees(t, n.pods[0], nodeIP+":80", podIP(0).String(), podIP(1).String())
	sees(t, n.pods[0], "[2001:db8::1]:80", podIP6(0).String(), podIP6(1).String())
	for _, from := range []struct {
		machine
		four, six string
	}{{n.pods[0], podIP(0).String(), podIP6(0).String()}, {n.machine, "10.96.0.10", "fd00:96::10"}} {
		sees(t, from.machine, "10.96.0.10:80", from.four, "10.96.0.10")
		sees(t, from.machine, "[fd00:96::10]:80", from.six, "fd00:96::10")
	}
}

func TestPodsDoNotReachTheMachinesLoopback(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	var l net.Listener
	n.Within(func() {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:999"); err != nil {
			t.Error(err)
		}
	})
	defer l.Close()
	p := n.pods[0]
	p.Sysctl(t, "net/ipv4/conf/all/route_localnet", "1")
	p.Run(t, "ip addr del 127.0.0.1/8 dev lo")
	p.Run(t, "ip route add 127.0.0.1/32 via 10.99.1.1 src "+podIP(0).String())
	dropped(t, p, "127.0.0.1:999")
}

func TestOutsideUsesAClusterAddress(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(0)}}), true)
	sees(t, n.outside, "10.96.0.1:80", bridgeIP, podIP(0).String())
}

func TestSourceRanges(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	lb, other := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	n.must(t, change(map[forward.Front]*forward.Entry{
		tcp(lb, 80):    {Inside: always(to(0)), Sources: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("192.0.2.0/30")}},
		tcp(other, 80): {Inside: always(to(0)), Sources: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}},
	}), true)
	sees(t, n.outside, "198.51.100.1:80", bridgeIP, podIP(0).String())
	dropped(t, n.outside, "198.51.100.2:80")
}

func TestAffinity(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	sticky := func(pods ...int) map[forward.Front]*forward.Entry {
		target := to(pods...)
		target.Affinity, target.Group = time.Hour, "default/web"
		return map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: target}, nodePort(30000): {Inside: always(target)}}
	}
	n.must(t, change(sticky(0, 1, 2)), true)
	first := map[int]string{}
	for i, p := range n.pods {
		server, _, err := p.ask("10.96.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		first[i] = server
	}
	again := func(i int, want string) {
		t.Helper()
		for range 10 {
			if server, _, err := n.pods[i].ask("10.96.0.1:80"); err != nil || server != want {
				t.Fatalf("client %d was served by %s, then by %s, %v", i, want, server, err)
			}
		}
	}
	for i := range n.pods {
		again(i, first[i])
	}
	if server, _, err := n.pods[0].ask(nodeIP + ":30000"); err != nil || server != first[0] {
		t.Errorf("by the node port the client is served by %s, not %s: %v", server, first[0], err)
	}
	// One who has clients goes: these find another, all others stay.
	var left []int
	for i := range n.pods {
		if podIP(i).String() != first[0] {
			left = append(left, i)
		}
	}
	n.must(t, change(sticky(left...)), false)
	for i := range n.pods {
		server, _, err := n.pods[i].ask("10.96.0.1:80")
		if err != nil || server == podIP(3-left[0]-left[1]).String() || first[i] != first[0] && server != first[i] {
			t.Errorf("client %d, who was served by %s: now by %s, %v", i, first[i], server, err)
		}
		again(i, server)
	}
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	if text := n.Run(t, "nft list ruleset ip"); strings.Contains(text, first[0]+":80") {
		t.Errorf("what nobody needs is still there:\n%s", text)
	}
	again(0, func() string { s, _, _ := n.pods[0].ask("10.96.0.1:80"); return s }())
}

// TestChainsThatNobodyNeedsGo: backends and sources change and change, and nobody
// else touches the rules.
func TestChainsThatNobodyNeedsGo(t *testing.T) {
	t.Parallel()
	n := newNode(t, 2)
	lb := netip.MustParseAddr("198.51.100.1")
	n.must(t, change(nil), true)
	made := func() [3]int {
		text := n.Run(t, "nft list ruleset ip")
		return [3]int{strings.Count(text, "chain a-"), strings.Count(text, "chain f-"), strings.Count(text, "set s-")}
	}
	for i := range 6 {
		target := to(i % 2)
		target.Affinity, target.Group = time.Hour, fmt.Sprint("default/web", i)
		n.must(t, change(map[forward.Front]*forward.Entry{
			tcp(vip, 80): {Inside: target},
			tcp(lb, 80):  {Inside: to(0), Sources: []netip.Prefix{netip.PrefixFrom(podIP(i), 32)}},
		}), false)
		if err := n.Repair(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := made(), [3]int{1, 1, 1}; got != want {
		t.Errorf("%v chains of affinity, chains of sources and sets of clients, want %v", got, want)
	}
	sent := n.Sent()
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	if n.Sent() != sent {
		t.Errorf("%d changes where nothing is idle", n.Sent()-sent)
	}
	sees(t, n.pods[0], "10.96.0.1:80", podIP(0).String(), podIP(1).String())
}
