package nft

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/forward"
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

func TestUDPClientsLeaveABackendThatWent(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	front := forward.Front{Addr: vip, Port: 53, Protocol: forward.UDP}
	port := forward.Front{Addr: netip.IPv4Unspecified(), Port: 30053, Protocol: forward.UDP}
	both := func(i int) map[forward.Front]*forward.Entry {
		return map[forward.Front]*forward.Entry{front: {Inside: to(i)}, port: {Inside: always(to(i))}}
	}
	n.must(t, change(both(1)), true)
	for _, c := range []struct {
		from machine
		to   string
	}{{n.pods[0], "10.96.0.1:53"}, {n.outside, nodeIP + ":30053"}} {
		n.must(t, change(both(1)), false)
		var conn net.Conn
		c.from.Within(func() {
			var err error
			if conn, err = net.Dial("udp4", c.to); err != nil {
				t.Error(err)
			}
		})
		defer conn.Close()
		ask := func() string {
			b := make([]byte, 200)
			if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte("who?")); err != nil {
				t.Fatal(err)
			}
			got, err := conn.Read(b)
			if err != nil {
				t.Fatalf("%s: %v", c.to, err)
			}
			return string(b[:got])
		}
		if got := ask(); got != string(n.pods[1].NS) {
			t.Errorf("%s: answered by %s", c.to, got)
		}
		n.must(t, change(both(2)), false)
		if got := ask(); got != string(n.pods[2].NS) {
			t.Errorf("%s: the socket still goes to the former backend, %s", c.to, got)
		}
	}
}

func TestAnotherProcessFindsAllAsItIs(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	sticky := to(0, 1)
	sticky.Affinity, sticky.Group = time.Hour, "default/web"
	all := func() forward.Change {
		return change(map[forward.Front]*forward.Entry{
			tcp(vip, 80):    {Inside: to(0, 1, 2)},
			tcp(vip, 81):    {Inside: sticky},
			nodePort(30000): {Inside: always(to(0, 1)), Outside: &forward.Target{Backends: to(2).Backends, KeepSource: true}},
			tcp(vip, 82):    {Inside: forward.Target{Verdict: forward.Reject}},
			tcp(vip, 83):    {Inside: to(2), Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
			tcp(netip.MustParseAddr("fd00:96::1"), 80): {Inside: forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(podIP6(0), 80)}}},
		})
	}
	n.must(t, all(), true)
	before := n.Run(t, "nft list ruleset")
	n.open(t)
	n.must(t, all(), true)
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	if err := n.Repair(); err != nil { // which has nothing to read
		t.Fatal(err)
	}
	if n.Sent() != 0 {
		t.Errorf("a second process made %d changes where all was right", n.Sent())
	}
	if after := n.Run(t, "nft list ruleset"); after != before {
		t.Errorf("rules before:\n%s\nafter:\n%s", before, after)
	}
	// What the first made and is wanted no more goes.
	n.open(t)
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(0)}}), true)
	sees(t, n.pods[1], "10.96.0.1:80", podIP(1).String(), podIP(0).String())
	refused(t, n.pods[1], "10.96.0.1:81")
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	if text := n.Run(t, "nft list ruleset"); strings.Contains(text, "30000") || strings.Contains(text, "s-") {
		t.Errorf("left over:\n%s", text)
	}
}

func TestRepair(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(1, 2)}}), true)
	for _, damage := range []string{
		"nft flush ruleset",
		"nft flush map ip berth-berth0 services",
		"nft delete element ip berth-berth0 services { 10.96.0.1 . tcp . 80 }",
		"nft flush chain ip berth-berth0 services",
		"nft add element ip berth-berth0 virtual { 10.99.1.11 }",
	} {
		n.Run(t, damage)
		if err := n.Repair(); err != nil {
			t.Fatalf("after %s: %v", damage, err)
		}
		sees(t, n.pods[0], "10.96.0.1:80", podIP(0).String(), podIP(1).String(), podIP(2).String())
		sees(t, n.pods[0], podIP(1).String()+":80", podIP(0).String(), podIP(1).String())
	}
	// A change finds the table gone, or elements that are not its own.
	n.Run(t, "nft delete table ip berth-berth0")
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 81): {Inside: to(1)}}), false)
	sees(t, n.pods[0], "10.96.0.1:81", podIP(0).String(), podIP(1).String())
	sees(t, n.pods[0], "10.96.0.1:80", podIP(0).String(), podIP(1).String(), podIP(2).String())
}

func TestTablesOfOthersSurvive(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	n.Run(t, "nft add table ip kube-proxy")
	n.Run(t, "nft add chain ip kube-proxy services")
	n.Run(t, "nft add rule ip kube-proxy services ip daddr 10.96.0.9 drop")
	want := n.Run(t, "nft list table ip kube-proxy")
	var second *Kernel
	n.Within(func() {
		var err error
		if second, err = Open(Config{Bridge: "berth1", ClusterRanges: podRanges}); err != nil {
			t.Error(err)
		}
	})
	defer second.Close()
	if err := second.Apply(change(map[forward.Front]*forward.Entry{tcp(vip, 99): {Inside: to(0)}}), true); err != nil {
		t.Fatal(err)
	}
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(0)}}), true)
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	if text := n.Run(t, "nft list table ip berth-berth1"); !strings.Contains(text, "99") {
		t.Errorf("another agent's table: %s", text)
	}
	if err := n.Remove(); err != nil {
		t.Fatal(err)
	}
	if got := n.Run(t, "nft list table ip kube-proxy"); got != want {
		t.Errorf("another's table is now %s", got)
	}
	if text := n.Run(t, "nft list tables"); strings.Contains(text, "berth-berth0") || !strings.Contains(text, "ip6 berth-berth1") {
		t.Errorf("after Remove: %s", text)
	}
}

func TestPinnedFrontsHideServices(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	pin := func(owner string, fronts map[forward.Front]*forward.Entry) {
		t.Helper()
		if err := n.Pin(owner, fronts); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(pod int) { t.Helper(); sees(t, n.outside, nodeIP+":30000", bridgeIP, podIP(pod).String()) }
	at := func(pod int) map[forward.Front]*forward.Entry {
		return map[forward.Front]*forward.Entry{nodePort(30000): {Inside: always(to(pod))}}
	}
	pin("early", at(1))
	n.must(t, change(at(0)), true)
	answers(1)
	pin("late", at(2))
	pin("early", nil) // who has it no more
	answers(2)
	pin("late", nil)
	answers(0)
	pin("late", at(2))
	n.must(t, forward.Change{Fronts: map[forward.Front]*forward.Entry{nodePort(30000): nil}}, false)
	answers(2)
	pin("late", nil)
	refused(t, n.outside, nodeIP+":30000")
}

func TestAnotherLayoutIsReplaced(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	at := map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(0)}}
	n.must(t, change(at), true)
	n.Within(func() {
		k, err := Open(Config{Bridge: "berth0", PodRanges: nodeRanges, ClusterRanges: nodeRanges})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if err := k.Apply(change(at), true); err != nil {
			t.Fatal(err)
		}
	})
	sees(t, n.pods[0], "10.96.0.1:80", bridgeIP, podIP(0).String())
	if text := n.Run(t, "nft list set ip berth-berth0 pods"); !strings.Contains(text, "10.99.1.0/24") {
		t.Errorf("the ranges are still %s", text)
	}
}

func TestAFirewallThatDropsIsTold(t *testing.T) {
	t.Parallel()
	n := newNode(t, 0)
	var told bytes.Buffer
	n.cfg.Log = slog.New(slog.NewTextHandler(&told, nil))
	n.must(t, forward.NewChange(), true)
	for _, step := range []struct {
		do   string
		want bool
	}{
		{"nft add table ip filter", false},
		{"nft add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }", true},
		{"nft add chain ip filter USER", false}, // told already
		{"nft add rule ip filter FORWARD iifname berth0 accept", false},
		{"nft flush chain ip filter FORWARD", true},
	} {
		told.Reset()
		n.Run(t, step.do)
		if err := n.Repair(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(told.String(), "table ip filter, chain FORWARD"); got != step.want {
			t.Errorf("after %q: told %q, want a warning: %v", step.do, &told, step.want)
		}
	}
}

// TestConnectionsGoOnWhileAllChanges: backends come and go, another process takes
// over, and rules are compared; each new connection finds a backend.
func TestConnectionsGoOnWhileAllChanges(t *testing.T) {
	t.Parallel()
	n := newNode(t, 4)
	sets := [][]int{{1, 2, 3}, {2}, {1, 3}, {3, 2}, {1}}
	entries := func(i int) map[forward.Front]*forward.Entry {
		sticky := to(sets[i%len(sets)]...)
		sticky.Affinity, sticky.Group = time.Hour, "default/web"
		return map[forward.Front]*forward.Entry{
			tcp(vip, 80): {Inside: to(sets[i%len(sets)]...)}, tcp(vip, 81): {Inside: sticky}, nodePort(30000): {Inside: always(to(sets[i%len(sets)]...))},
		}
	}
	n.must(t, change(entries(0)), true)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var made atomic.Int64
	for from, to := range map[machine]string{n.pods[0]: "10.96.0.1:80", n.outside: nodeIP + ":30000", n.machine: "10.96.0.1:81"} {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, _, err := from.ask(to); err != nil {
					t.Errorf("%s: %v", to, err)
				}
				made.Add(1)
			}
		})
	}
	for i := range 40 {
		n.must(t, change(entries(i)), false)
		if i%10 == 5 {
			n.open(t)
			n.must(t, change(entries(i)), true)
			if err := n.Repair(); err != nil {
				t.Error(err)
			}
		}
	}
	for made.Load() < 200 {
		n.must(t, change(entries(int(made.Load()))), false)
	}
	close(stop)
	clients.Wait()
	t.Log(made.Load(), "connections")
}

// TestListed: people look by nft what is there.
func TestListed(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	sticky := to(0, 1)
	sticky.Affinity, sticky.Group = 3*time.Hour, "default/web"
	n.must(t, change(map[forward.Front]*forward.Entry{
		tcp(vip, 80):    {Inside: to(0, 1)},
		tcp(vip, 81):    {Inside: sticky},
		nodePort(30000): {Inside: always(to(0, 1, 2)), Outside: &forward.Target{Backends: to(2).Backends, KeepSource: true}},
		tcp(vip, 83):    {Inside: to(2), Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	}), true)
	text := n.Run(t, "nft list ruleset ip")
	for _, want := range []string{
		"10.96.0.1 . tcp . 80 : goto n2",
		"10.96.0.1 . tcp . 80 . 0x00000001 : 10.99.1.11 . 80",
		"dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 2 map @backends",
		"tcp . 30000 : goto pm3", "tcp . 30000 : goto pl1",
		"dnat ip to meta l4proto . th dport . numgen random mod 3 map @nodeport-backends",
		"numgen random mod 2 vmap { 0 : goto e-",
		"timeout 3h", "update @s-", "dnat to 10.99.1.10:80",
		"ip saddr 192.0.2.0/24 return", ": jump f-",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("nft does not list %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestManyBackends: more than a transaction has, and to none again.
func TestManyBackends(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	many := forward.Target{}
	for i := range 65536 {
		many.Backends = append(many.Backends, netip.AddrPortFrom(podIP(0), uint16(i)|1))
	}
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: many}}), true)
	many.Backends = to(0).Backends
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: many}}), false)
	sees(t, n.pods[0], "10.96.0.1:80", bridgeIP, podIP(0).String())
	if err := n.Apply(forward.Change{Fronts: map[forward.Front]*forward.Entry{tcp(vip, 80): nil}}, false); err != nil {
		t.Fatal(err)
	}
	if text := n.Run(t, "nft list map ip berth-berth0 backends"); strings.Contains(text, "elements") {
		t.Errorf("left over: %.500s", text)
	}
}
