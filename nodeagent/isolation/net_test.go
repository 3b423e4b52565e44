package isolation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
	"github.com/berth-dev/berth/nodeagent/nft"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// bed is a machine with pods on a bridge, and rules.
type bed struct {
	netnstest.NS
	kernel *nft.Kernel
	pods   []netnstest.NS
	heard  []chan string // datagrams and SCTP's packets, by the pod that got them
	port   uint16        // that an SCTP packet was last sent from
}

func address(i int) netip.Addr  { return netip.AddrFrom4([4]byte{10, 99, 1, byte(10 + i)}) }
func address6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd00:99::%x", 10+i)) }

var ranges = []netip.Prefix{netip.MustParsePrefix("10.99.1.0/24"), netip.MustParsePrefix("fd00:99::/64")}

func newBed(t testing.TB, pods int) *bed {
	t.Helper()
	b := &bed{NS: netnstest.New(t)}
	b.Run(t, "ip link add berth0 type bridge", "ip addr add 10.99.1.1/24 dev berth0", "ip -6 addr add fd00:99::1/64 dev berth0 nodad", "ip link set berth0 up")
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		b.Sysctl(t, "net/"+name, "1")
	}
	b.Within(func() {
		var err error
		if b.kernel, err = nft.Open(nft.Config{Bridge: "berth0", PodRanges: ranges, ClusterRanges: ranges, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() { b.kernel.Close() })
	for i := range pods {
		b.addPod(t, i)
	}
	return b
}

func (b *bed) addPod(t testing.TB, i int) {
	t.Helper()
	p := netnstest.New(t)
	netnstest.Link(t, b.NS, fmt.Sprint("v", i), p, "eth0")
	b.Run(t, fmt.Sprintf("ip link set v%d master berth0 up", i), fmt.Sprintf("ip link set v%d type bridge_slave hairpin on", i))
	p.Run(t, fmt.Sprintf("ip addr add %s/32 dev eth0", address(i)), fmt.Sprintf("ip -6 addr add %s/128 dev eth0 nodad", address6(i)),
		"ip route add 10.99.1.1 dev eth0", "ip route add default via 10.99.1.1", "ip -6 route add fd00:99::1 dev eth0", "ip -6 route add default via fd00:99::1")
	b.pods, b.heard = append(b.pods, p), append(b.heard, make(chan string, 1000))
	for _, port := range []string{":80", ":81"} {
		b.listen(t, i, port)
	}
	b.listenSCTP(t, i, "ip4:132", address(i))
	b.listenSCTP(t, i, "ip6:132", address6(i))
}

// listenSCTP hands on who asks for associations, which packets say by their tags.
func (b *bed) listenSCTP(t testing.TB, i int, network string, at netip.Addr) {
	t.Helper()
	var conn *net.IPConn
	var err error
	b.pods[i].Within(func() { conn, err = net.ListenIP(network, nil) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 100)
		for {
			n, _, err := conn.ReadFromIP(buffer)
			if err != nil {
				return
			}
			c, err := netnstest.ParseChunk(buffer[:n])
			if err != nil {
				b.heard[i] <- err.Error()
				continue
			}
			b.heard[i] <- fmt.Sprintf("%d to %s", c.Own-1, netip.AddrPortFrom(at, c.To))
		}
	}()
}

// say sends a packet that says who sent it, and to whom.
func (b *bed) say(from int, at netip.AddrPort, protocol forward.Protocol) (err error) {
	network, address, text := "udp", at.String(), fmt.Appendf(nil, "%d to %s", from, at)
	if protocol == forward.SCTP {
		b.port++
		network, address = "ip:132", at.Addr().String()
		text = netnstest.Chunk{Kind: netnstest.Init, From: b.port, To: at.Port(), Own: uint32(from) + 1}.Packet() // no tag is 0
	}
	b.pods[from].Within(func() {
		var c net.Conn
		if c, err = net.Dial(network, address); err != nil {
			return
		}
		defer c.Close()
		_, err = c.Write(text)
	})
	return err
}

// listen takes connections, and hands on what datagrams say.
func (b *bed) listen(t testing.TB, i int, port string) {
	t.Helper()
	var l net.Listener
	var u net.PacketConn
	var err, err2 error
	b.pods[i].Within(func() {
		l, err = net.Listen("tcp", port)
		u, err2 = net.ListenPacket("udp", port)
	})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); u.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	go func() {
		buffer := make([]byte, 100)
		for {
			n, _, err := u.ReadFrom(buffer)
			if err != nil {
				return
			}
			b.heard[i] <- string(buffer[:n])
		}
	}()
}

// passes tells whether pod from reaches pod to. Nothing is timed: either it
// arrives, or the kernel counts it as denied.
func (b *bed) passes(t testing.TB, from, to int, at netip.AddrPort, protocol forward.Protocol) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := b.denied(t)
	arrived := make(chan error, 1)
	if protocol == forward.TCP {
		go b.pods[from].Within(func() {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", at.String())
			if err == nil {
				c.Close()
			}
			arrived <- err
		})
	} else if err := b.say(from, at, protocol); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-arrived:
			if err != nil {
				t.Fatalf("%d to %s: %v", from, at, err)
			}
			return true
		case text := <-b.heard[to]:
			if text != fmt.Sprintf("%d to %s", from, at) {
				t.Fatalf("%d to %s: heard %q", from, at, text)
			}
			return true
		case <-tick.C:
			if b.denied(t) != before {
				return false
			}
		case <-ctx.Done():
			t.Fatalf("%d to %s: neither arrived nor denied", from, at)
		}
	}
}

func (b *bed) denied(t testing.TB) uint64 {
	in, out, err := b.kernel.Denied()
	if err != nil {
		t.Fatal(err)
	}
	return in + out
}
