package nft

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/arp"
	"github.com/mdlayher/ethernet"
	"github.com/mdlayher/ndp"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// firstHeard listens at an address of one machine while another does some things, each
// of which sends a word there, and gives which word came first, from whom. Packets do
// not overtake each other.
func (n machine) firstHeard(t *testing.T, to machine, at string, does ...func(send func(word, from string))) (word, seen string) {
	t.Helper()
	var l net.PacketConn
	var err error
	to.Within(func() { l, err = net.ListenPacket("udp", net.JoinHostPort(at, "99")) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, do := range does {
		do(func(word, from string) {
			n.Within(func() {
				var c net.Conn
				d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
				if c, err = d.Dial("udp", net.JoinHostPort(at, "99")); err == nil {
					_, err = c.Write([]byte(word))
					c.Close()
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := l.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	length, from, err := l.ReadFrom(b)
	if err != nil {
		t.Fatalf("nobody is heard at %s: %v", at, err)
	}
	return string(b[:length]), from.(*net.UDPAddr).AddrPort().Addr().Unmap().String()
}

// sends sends an address by that address.
func sends(from string) func(func(word, from string)) {
	return func(send func(word, from string)) { send(from, from) }
}

// TestPodsSendByAddressesOfPods: what a pod sends by an address that is no pod's of
// this node is nobody's business: it would pass policies that go by addresses.
func TestPodsSendByAddressesOfPods(t *testing.T) {
	t.Parallel()
	n := newNode(t, 2)
	p := n.pods[0]
	p.Run(t, "ip addr add 203.0.113.9/32 dev lo", "ip -6 addr add 2001:db8:9::9/128 dev lo nodad",
		"ip addr add 10.99.2.9/32 dev lo") // of a pod elsewhere
	for _, tt := range []struct {
		name             string
		to               machine
		at, spoofed, own string
		seen             string
	}{
		{"to the outside", n.outside, outsideIP, "203.0.113.9", podIP(0).String(), nodeIP},
		{"to the outside over IPv6", n.outside, "2001:db8::2", "2001:db8:9::9", podIP6(0).String(), "2001:db8::1"},
		{"as a pod of another node, to a neighbour", n.pods[1], podIP(1).String(), "10.99.2.9", podIP(0).String(), podIP(0).String()},
		{"to the machine itself", n.machine, bridgeIP, "203.0.113.9", podIP(0).String(), podIP(0).String()},
	} {
		if word, seen := p.firstHeard(t, tt.to, tt.at, sends(tt.spoofed), sends(tt.own)); word != tt.own || seen != tt.seen {
			t.Errorf("%s: first heard %q from %v; want %q from %s", tt.name, word, seen, tt.own, tt.seen)
		}
	}
}

// mac is a pod's hardware address, or the bridge's.
func (n machine) mac(t *testing.T, device string) (out net.HardwareAddr) {
	t.Helper()
	n.Within(func() {
		i, err := net.InterfaceByName(device)
		if err != nil {
			t.Error(err)
			return
		}
		out = i.HardwareAddr
	})
	return out
}

// boundPods are the pods, as Bind has them.
func (n *node) boundPods(t *testing.T) map[string]Sender {
	t.Helper()
	out := map[string]Sender{}
	for i, p := range n.pods {
		out[fmt.Sprint(i)] = Sender{Port: fmt.Sprintf("v%d", i), MAC: p.mac(t, "eth0"), IPs: []netip.Addr{podIP(i), podIP6(i)}}
	}
	return out
}

// TestPodsSendByTheirOwnAddressesAlone: a pod whose port is bound sends nothing as its
// neighbour, whether by IP, by a hardware address, or by what it says to ARP and
// neighbour discovery.
func TestPodsSendByTheirOwnAddressesAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	bound := n.boundPods(t)
	n.pods[0].Run(t, fmt.Sprintf("ip addr add %s/32 dev lo", podIP(1)), fmt.Sprintf("ip -6 addr add %s/128 dev lo nodad", podIP6(1)))
	n.must(t, forward.NewChange(), true)
	n.wantSpoofed(t, "not bound", true)
	if err := n.Bind(bound, true); err != nil {
		t.Fatal(err)
	}
	n.wantSpoofed(t, "bound", false)
	n.open(t)
	n.wantSpoofed(t, "while another process begins", false)
	if err := n.Bind(bound, true); err != nil || n.Sent() != 0 {
		t.Errorf("another process made %d changes where all was right, %v", n.Sent(), err)
	}
	n.must(t, forward.NewChange(), true)
	for _, damage := range []string{"nft flush ruleset", "nft flush set bridge berth-berth0 ports", "nft flush chain bridge berth-berth0 bound"} {
		n.Run(t, damage)
		if err := n.Repair(); err != nil {
			t.Fatalf("after %s: %v", damage, err)
		}
		n.wantSpoofed(t, "after "+damage, false)
	}
	n.Run(t, "nft delete table bridge berth-berth0")
	if err := n.Unbind("2"); err != nil {
		t.Fatal(err)
	}
	n.wantSpoofed(t, "bound again with a change", false)
	if err := n.Unbind("0"); err != nil {
		t.Fatal(err)
	}
	n.wantSpoofed(t, "bound no more", true)
	if text := n.Run(t, "nft list table bridge berth-berth0"); !strings.Contains(text, podIP(1).String()) || strings.Contains(text, podIP(0).String()) || strings.Contains(text, podIP(2).String()) {
		t.Errorf("the table has not the one pod that is bound:\n%s", text)
	}
}

// wantSpoofed has the first pod send as the second in all ways, and then as itself.
func (n *node) wantSpoofed(t *testing.T, when string, spoofed bool) {
	t.Helper()
	p, own, own6 := n.pods[0], podIP(0).String(), podIP6(0).String()
	check := func(what, word, as, own string) {
		t.Helper()
		want := own
		if spoofed {
			want = as
		}
		if word != want {
			t.Errorf("%s, %s: first heard %q, want %q", when, what, word, want)
		}
	}
	for _, tt := range []struct {
		what        string
		to          machine
		at, as, own string
	}{
		{"to the outside", n.outside, outsideIP, podIP(1).String(), own},
		{"to the outside over IPv6", n.outside, "2001:db8::2", podIP6(1).String(), own6},
		{"to a neighbour", n.pods[2], podIP(2).String(), podIP(1).String(), own},
		{"to a neighbour over IPv6", n.pods[2], podIP6(2).String(), podIP6(1).String(), own6},
		{"to the machine", n.machine, bridgeIP, podIP(1).String(), own},
	} {
		word, _ := p.firstHeard(t, tt.to, tt.at, sends(tt.as), sends(tt.own))
		check(tt.what, word, tt.as, tt.own)
	}
	mine, gateway := p.mac(t, "eth0"), n.mac(t, "berth0")
	become := func(mac string) {
		p.Run(t, "ip link set eth0 address "+mac, fmt.Sprintf("ip neigh replace 10.99.1.1 lladdr %s dev eth0 nud permanent", gateway))
	}
	word, _ := p.firstHeard(t, n.machine, bridgeIP,
		func(send func(word, from string)) { become("02:00:00:00:00:99"); send("by another station", own) },
		func(send func(word, from string)) { become(mine.String()); send(own, own) })
	check("by another hardware address", word, "by another station", own)

	his := n.pods[1].mac(t, "eth0")
	for _, a := range []netip.Addr{podIP(1), podIP6(1)} {
		n.Run(t, fmt.Sprintf("ip neigh replace %s lladdr %s dev berth0 nud reachable", a, his))
	}
	p.firstHeard(t, n.machine, bridgeIP, func(send func(word, from string)) { p.claim(t, 1); send("done", own) })
	want := his
	if spoofed {
		want = mine
	}
	for _, a := range []netip.Addr{podIP(1), podIP6(1)} {
		if text := n.Run(t, fmt.Sprintf("ip neigh show %s dev berth0", a)); !strings.Contains(text, want.String()) {
			t.Errorf("%s, the machine takes %s to be at %s, want %s", when, a, text, want)
		}
		n.Run(t, fmt.Sprintf("ip neigh del %s dev berth0", a))
	}
}

// claim says to everybody that a pod's addresses are at this machine.
func (n machine) claim(t *testing.T, pod int) {
	t.Helper()
	n.Within(func() {
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			t.Error(err)
			return
		}
		four, err := arp.Dial(i)
		if err != nil {
			t.Error(err)
			return
		}
		defer four.Close()
		reply, err := arp.NewPacket(arp.OperationReply, i.HardwareAddr, podIP(pod), i.HardwareAddr, podIP(pod)) // believed at once
		if err != nil {
			t.Error(err)
			return
		}
		if err := four.WriteTo(reply, ethernet.Broadcast); err != nil {
			t.Error(err)
		}
		six, _, err := ndp.Listen(i, ndp.Addr(podIP6(0).String()))
		if err != nil {
			t.Error(err)
			return
		}
		defer six.Close()
		if err := six.WriteTo(&ndp.NeighborAdvertisement{
			Override: true, TargetAddress: podIP6(pod), Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: i.HardwareAddr}},
		}, nil, netip.MustParseAddr("ff02::1")); err != nil {
			t.Error(err)
		}
	})
}

// TestABoundPodIsServed: it asks services, is asked, and finds its neighbours.
func TestABoundPodIsServed(t *testing.T) {
	t.Parallel()
	n := newNode(t, 2)
	if err := n.Bind(n.boundPods(t), true); err != nil {
		t.Fatal(err)
	}
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(1)}, nodePort(30000): {Inside: always(to(0))}}), true)
	for _, m := range []machine{n.machine, n.pods[0], n.pods[1]} {
		m.Run(t, "ip neigh flush all")
	}
	sees(t, n.pods[0], "10.96.0.1:80", podIP(0).String(), podIP(1).String())
	sees(t, n.pods[1], "10.96.0.1:80", bridgeIP, podIP(1).String())
	sees(t, n.outside, nodeIP+":30000", bridgeIP, podIP(0).String())
	sees(t, n.machine, fmt.Sprintf("[%s]:80", podIP6(0)), "fd00:99::1", podIP6(0).String())
	sees(t, n.pods[0], fmt.Sprintf("[%s]:80", podIP6(1)), podIP6(0).String(), podIP6(1).String())
}

// TestWithoutNftablesForBridges nothing is bound, and nothing fails.
func TestWithoutNftablesForBridges(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	n.cfg.dial = func(...nftables.ConnOption) (*nftables.Conn, error) {
		return nftables.New(nftables.WithTestDial(func([]netlink.Message) ([]netlink.Message, error) { return nil, unix.EOPNOTSUPP }))
	}
	s, err := openSenders(n.Kernel)
	if s != nil || err != nil {
		t.Fatalf("senders of a kernel that has none: %v, %v", s, err)
	}
	n.senders = s
	if err := n.Bind(n.boundPods(t), true); err != nil {
		t.Error(err)
	}
	if err := n.Unbind("0"); err != nil {
		t.Error(err)
	}
}
