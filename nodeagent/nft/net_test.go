package nft

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/network/netnstest"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// machine is a network namespace that plays a machine, or a pod of it.
type machine struct{ netnstest.NS }

func newMachine(t testing.TB) machine { return machine{netnstest.New(t)} }

// node is a machine with a bridge of pods, a client outside, and rules.
type node struct {
	machine
	*Kernel
	outside machine
	pods    []machine
	names   []netip.Addr // of its DNS

	noLoopback bool
	tunnels    []string
}

const (
	nodeIP    = "192.0.2.1"
	outsideIP = "192.0.2.2"
)

func podIP(i int) netip.Addr  { return netip.AddrFrom4([4]byte{10, 99, 1, byte(10 + i)}) }
func podIP6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd00:99::%d", 10+i)) }

var podRanges = []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16"), netip.MustParsePrefix("fd00:99::/64")}

var nodeRanges = []netip.Prefix{netip.MustParsePrefix("10.99.1.0/24"), netip.MustParsePrefix("fd00:99::/64")}

// newNode makes a machine with pods, which are served by answers.
func newNode(t testing.TB, pods int) *node {
	t.Helper()
	n := &node{machine: newMachine(t), outside: newMachine(t)}
	for _, line := range []string{
		"link add berth0 type bridge", "addr add 10.99.1.1/24 dev berth0", "-6 addr add fd00:99::1/64 dev berth0 nodad", "link set berth0 up",
	} {
		n.Run(t, "ip "+line)
	}
	for name, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1", "net/ipv4/conf/berth0/route_localnet": "1",
	} {
		n.Sysctl(t, name, value)
	}
	netnstest.Link(t, n.NS, "up0", n.outside.NS, "eth0")
	n.Run(t, "ip addr add "+nodeIP+"/24 dev up0")
	n.Run(t, "ip -6 addr add 2001:db8::1/64 dev up0 nodad")
	n.Run(t, "ip route add default via "+outsideIP)
	n.Run(t, "ip -6 route add default via 2001:db8::2")
	n.outside.Run(t, "ip addr add "+outsideIP+"/24 dev eth0")
	n.outside.Run(t, "ip -6 addr add 2001:db8::2/64 dev eth0 nodad")
	n.outside.Run(t, "ip route add default via "+nodeIP)
	n.outside.Run(t, "ip -6 route add default via 2001:db8::1")
	for i := range pods {
		p := newMachine(t)
		port := fmt.Sprintf("v%d", i)
		netnstest.Link(t, n.NS, port, p.NS, "eth0")
		n.Run(t, "ip link set "+port+" master berth0")
		n.Run(t, "ip link set "+port+" type bridge_slave hairpin on")
		p.Run(t, fmt.Sprintf("ip addr add %s/24 dev eth0", podIP(i)))
		p.Run(t, fmt.Sprintf("ip -6 addr add %s/64 dev eth0 nodad", podIP6(i)))
		for _, route := range []string{"default via 10.99.1.1", "10.99.1.128/25 via 10.99.1.1", "10.99.1.0/25 via 10.99.1.1"} {
			p.Run(t, "ip route add "+route)
		}
		for _, route := range []string{"default via fd00:99::1", "fd00:99:0:0:8000::/65 via fd00:99::1", "fd00:99::/65 via fd00:99::1"} {
			p.Run(t, "ip -6 route add "+route)
		}
		answer(t, p)
		n.pods = append(n.pods, p)
	}
	n.open(t)
	return n
}

// open lays the rules, as a new process would.
func (n *node) open(t testing.TB) {
	t.Helper()
	var err error
	n.Within(func() {
		n.Kernel, err = Open(Config{Bridge: "berth0", PodRanges: nodeRanges, ClusterRanges: podRanges, Names: n.names, NoLoopback: n.noLoopback, Tunnels: n.tunnels, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	})
	if err != nil {
		t.Fatal(err)
	}
	k := n.Kernel
	t.Cleanup(func() { k.Close() })
}

// answer tells whoever connects, by TCP or UDP to port 80, the server's address
// and the client's.
func answer(t testing.TB, n machine) {
	t.Helper()
	var l net.Listener
	var p *net.UDPConn
	var err, err2 error
	n.Within(func() {
		l, err = net.Listen("tcp", ":80")
		p, err2 = net.ListenUDP("udp4", &net.UDPAddr{Port: 80})
	})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); p.Close() })
	host := func(a net.Addr) string { h, _, _ := net.SplitHostPort(a.String()); return h }
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, host(c.LocalAddr()), " ", host(c.RemoteAddr()))
			c.Close()
		}
	}()
	go func() {
		b := make([]byte, 100)
		for {
			_, from, err := p.ReadFromUDP(b)
			if err != nil {
				return
			}
			p.WriteToUDP([]byte(string(n.NS)), from)
		}
	}()
}

// ask connects from a namespace; it gives who answered, and whom it saw.
func (n machine) ask(to string) (server, client string, err error) {
	n.Within(func() {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", to, 3*time.Second); err != nil {
			return
		}
		defer c.Close()
		var text []byte
		if text, err = io.ReadAll(c); err == nil {
			server, client, _ = strings.Cut(string(text), " ")
		}
	})
	return server, client, err
}
