package nft

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
)

// association is what a backend was asked for.
type association struct {
	netnstest.Chunk
	client string
	err    error
}

// serveSCTP answers those who ask a pod for an association, and hands them on.
func serveSCTP(t *testing.T, pod machine, network string) <-chan association {
	t.Helper()
	var conn *net.IPConn
	var err error
	pod.Within(func() { conn, err = net.ListenIP(network+":132", nil) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	asked := make(chan association, 10)
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFromIP(b)
			if err != nil {
				return
			}
			c, err := netnstest.ParseChunk(b[:n])
			if err == nil {
				_, err = conn.WriteToIP(netnstest.Chunk{Kind: netnstest.InitAck, From: c.To, To: c.From, Tag: c.Own, Own: 7}.Packet(), from)
			}
			asked <- association{c, from.IP.String(), err}
		}
	}()
	return asked
}

// associate asks for an association, and gives the answer. A socket that is
// connected hears nobody but whom it asked.
func (n machine) associate(to netip.AddrPort, from uint16) (answer netnstest.Chunk, err error) {
	network := "ip6:132"
	if to.Addr().Is4() {
		network = "ip4:132"
	}
	n.Within(func() {
		var conn *net.IPConn
		if conn, err = net.DialIP(network, nil, &net.IPAddr{IP: to.Addr().AsSlice()}); err != nil {
			return
		}
		defer conn.Close()
		if err = conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return
		}
		if _, err = conn.Write(netnstest.Chunk{Kind: netnstest.Init, From: from, To: to.Port(), Own: uint32(from)}.Packet()); err != nil {
			return
		}
		b := make([]byte, 1500)
		var length int
		if length, _, err = conn.ReadFromIP(b); err == nil {
			answer, err = netnstest.ParseChunk(b[:length])
		}
	})
	return answer, err
}

// TestSCTP: packets that ask for associations arrive at backends, the answers come
// from where was asked, with checksums that are right, and the kernel keeps the flow.
func TestSCTP(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	six := netip.MustParseAddr("fd00:96::1")
	front := func(a netip.Addr, port uint16) forward.Front {
		return forward.Front{Addr: a, Port: port, Protocol: forward.SCTP}
	}
	entries := func(pod int) map[forward.Front]*forward.Entry {
		four := forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(podIP(pod), 9999)}}
		return map[forward.Front]*forward.Entry{
			front(vip, 9000):                      {Inside: four},
			front(vip, 9001):                      {Inside: forward.Target{Verdict: forward.Reject}},
			front(netip.IPv4Unspecified(), 30900): {Inside: always(four)},
			front(six, 9000):                      {Inside: forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(podIP6(pod), 9999)}}},
		}
	}
	asked := map[string]<-chan association{}
	for i := 1; i < 3; i++ {
		asked[podIP(i).String()], asked[podIP6(i).String()] = serveSCTP(t, n.pods[i], "ip4"), serveSCTP(t, n.pods[i], "ip6")
	}
	port := uint16(4000)
	for pod := 1; pod < 3; pod++ { // the second replaces the first
		n.must(t, change(entries(pod)), pod == 1)
		for _, tt := range []struct {
			name         string
			from         machine
			to           string
			client, sees string
		}{
			{"by the cluster address", n.pods[0], "10.96.0.1:9000", podIP(0).String(), podIP(pod).String()},
			{"from the machine", n.machine, "10.96.0.1:9000", bridgeIP, podIP(pod).String()},
			{"by the node port", n.outside, nodeIP + ":30900", bridgeIP, podIP(pod).String()},
			{"by the cluster address of IPv6", n.pods[0], "[fd00:96::1]:9000", podIP6(0).String(), podIP6(pod).String()},
		} {
			to := netip.MustParseAddrPort(tt.to)
			port++
			answer, err := tt.from.associate(to, port)
			if want := (netnstest.Chunk{Kind: netnstest.InitAck, From: to.Port(), To: port, Tag: uint32(port), Own: 7}); err != nil || answer != want {
				t.Errorf("%s: answered by %+v, %v; want %+v", tt.name, answer, err, want)
				continue
			}
			got := <-asked[tt.sees]
			if got.err != nil || got.client != tt.client || got.To != 9999 || got.Kind != netnstest.Init {
				t.Errorf("%s: pod %d was asked %+v, want port 9999 by %s", tt.name, pod, got, tt.client)
			}
			if !n.tracks(t, to.Addr().String(), tt.sees) {
				t.Errorf("%s: the kernel keeps no flow from %s to %s", tt.name, to, tt.sees)
			}
		}
	}
	if _, err := n.pods[0].associate(netip.MustParseAddrPort("10.96.0.1:9001"), 5000); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a service without backends: %v, want refused", err)
	}
	for at, c := range asked {
		if len(c) != 0 {
			t.Errorf("%s was asked %d times more than it should", at, len(c))
		}
	}
}

// tracks tells whether the kernel has an SCTP flow to an address that goes to a
// backend. Its ports the library does not read.
func (n *node) tracks(t *testing.T, to, backend string) bool {
	t.Helper()
	h, err := netlink.NewHandleAt(netns.NsHandle(n.ns.Fd()), unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		flows, err := h.ConntrackTableList(netlink.ConntrackTable, family)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(flows, func(f *netlink.ConntrackFlow) bool {
			return f.Forward.Protocol == unix.IPPROTO_SCTP && f.Forward.DstIP.String() == to && f.Reverse.SrcIP.String() == backend
		}) {
			return true
		}
	}
	return false
}
