package nft

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

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
		var l net.PacketConn
		var err error
		tt.to.Within(func() { l, err = net.ListenPacket("udp", net.JoinHostPort(tt.at, "99")) })
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, from := range []string{tt.spoofed, tt.own} { // packets do not overtake each other
			p.Within(func() {
				var c net.Conn
				d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
				if c, err = d.Dial("udp", net.JoinHostPort(tt.at, "99")); err == nil {
					_, err = c.Write([]byte(from))
					c.Close()
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := l.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		length, from, err := l.ReadFrom(b)
		if err != nil || string(b[:length]) != tt.own || from.(*net.UDPAddr).AddrPort().Addr().Unmap().String() != tt.seen {
			t.Errorf("%s: first heard %q from %v, %v; want %q from %s", tt.name, b[:length], from, err, tt.own, tt.seen)
		}
	}
}
