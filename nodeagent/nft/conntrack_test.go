package nft

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/forward"
)

func TestUDPClientsLeaveABackendThatWent(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	front := forward.Front{Addr: vip, Port: 53, Protocol: forward.UDP}
	port := forward.Front{Addr: netip.IPv4Unspecified(), Port: 30053, Protocol: forward.UDP}
	both := func(i int) map[forward.Front]*forward.Entry {
		return map[forward.Front]*forward.Entry{front: {Inside: to(i)}, port: {Inside: always(to(i))}}
	}
	ending := both(2) // it serves whom it has until it is gone
	for _, e := range ending {
		e.Serving = to(1, 2).Backends
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
		n.must(t, change(ending), false)
		if got := ask(); got != string(n.pods[1].NS) {
			t.Errorf("%s: the socket has left a backend that ends, for %s", c.to, got)
		}
		n.must(t, change(both(2)), false)
		if got := ask(); got != string(n.pods[2].NS) {
			t.Errorf("%s: the socket still goes to the former backend, %s", c.to, got)
		}
		nobody := &forward.Entry{Inside: forward.Target{Verdict: forward.Reject}}
		n.must(t, change(map[forward.Front]*forward.Entry{front: nobody, port: nobody}), false)
		if got := n.flows(t); len(got) > 0 {
			t.Errorf("flows to ports %v are left where nobody serves", got)
		}
	}
}

// TestAnotherProcessForgetsStaleFlows: what went, changed or came while nobody
// worked is as if it did so now.
func TestAnotherProcessForgetsStaleFlows(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	udp := func(a netip.Addr, port uint16) forward.Front {
		return forward.Front{Addr: a, Port: port, Protocol: forward.UDP}
	}
	own := netip.IPv4Unspecified()
	deleted, moved, kept := udp(vip, 53), udp(vip, 54), udp(vip, 55)
	deletedPort, madePort := udp(own, 30053), udp(own, 30054)
	if err := n.Pin("pod", map[forward.Front]*forward.Entry{udp(own, 5353): {Inside: to(2)}}); err != nil {
		t.Fatal(err)
	}
	n.must(t, change(map[forward.Front]*forward.Entry{
		deleted: {Inside: to(1)}, moved: {Inside: to(1)}, kept: {Inside: to(1)}, deletedPort: {Inside: always(to(1))},
	}), true)
	for at, from := range map[string]machine{
		"10.96.0.1:53": n.pods[0], "10.96.0.1:54": n.pods[0], "10.96.0.1:55": n.pods[0], // of the cluster
		nodeIP + ":30053": n.outside, nodeIP + ":30054": n.outside, nodeIP + ":5353": n.outside, // of the machine
	} {
		from.Within(func() {
			c, err := net.Dial("udp4", at)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := c.Write([]byte("who?")); err != nil {
				t.Error(err)
			}
			c.Close()
		})
	}
	want := []uint16{53, 54, 55, 5353, 30053, 30054}
	polltest.Until(t, "all flows are known", func() bool { return slices.Equal(n.flows(t), want) })
	n.open(t)
	if err := n.Pin("pod", map[forward.Front]*forward.Entry{udp(own, 5353): {Inside: to(2)}}); err != nil {
		t.Fatal(err)
	}
	n.must(t, change(map[forward.Front]*forward.Entry{moved: {Inside: to(2)}, kept: {Inside: to(1)}, madePort: {Inside: always(to(2))}}), true)
	if got, want := n.flows(t), []uint16{55, 5353}; !slices.Equal(got, want) {
		t.Errorf("flows to ports %v are left, want %v: of those that go where they should", got, want)
	}
}

// TestStaleFlowsAreForgottenInTheEnd: where the change could not be sent, and where it
// was and the flows could not be looked at, Repair sees to them.
func TestStaleFlowsAreForgottenInTheEnd(t *testing.T) {
	t.Parallel()
	front := forward.Front{Addr: vip, Port: 53, Protocol: forward.UDP}
	ending := forward.Entry{Inside: to(2), Serving: to(1).Backends}
	for name, hinder := range map[string]func(*Kernel) (restore func()){
		"the kernel cannot be told": func(k *Kernel) func() {
			dial := k.cfg.dial
			k.cfg.dial = func(...nftables.ConnOption) (*nftables.Conn, error) { return nil, syscall.EMFILE }
			return func() { k.cfg.dial = dial }
		},
		"the flows cannot be looked at": func(k *Kernel) func() {
			if err := k.Apply(change(map[forward.Front]*forward.Entry{front: &ending}), false); err != nil {
				t.Error(err)
			}
			ns := k.ns
			k.ns = os.Stdin // no namespace
			return func() { k.ns = ns }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, 3)
			n.must(t, change(map[forward.Front]*forward.Entry{front: {Inside: to(1)}}), true)
			n.pods[0].Within(func() {
				c, err := net.Dial("udp4", "10.96.0.1:53")
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if _, err := c.Write([]byte("who?")); err != nil {
					t.Error(err)
				}
			})
			polltest.Until(t, "the flow is known", func() bool { return len(n.flows(t)) == 1 })
			if err := n.Repair(); err != nil {
				t.Fatal(err)
			}
			restore := hinder(n.Kernel)
			if err := n.Apply(change(map[forward.Front]*forward.Entry{front: {Inside: to(2)}}), false); err == nil {
				t.Error("a change that cannot be made is no error")
			}
			restore()
			if got := n.flows(t); len(got) != 1 {
				t.Fatalf("flows to ports %v, want the one", got)
			}
			if err := n.Repair(); err != nil {
				t.Fatal(err)
			}
			if got := n.flows(t); len(got) > 0 {
				t.Errorf("flows to ports %v are left", got)
			}
		})
	}
}

// TestAFormerPodsFlowsArePoliciesBusinessAgain: a client goes on by the flow that it had
// with a pod whose address another has now, who is isolated.
func TestAFormerPodsFlowsArePoliciesBusinessAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	n.must(t, change(map[forward.Front]*forward.Entry{{Addr: vip, Port: 53, Protocol: forward.UDP}: {Inside: to(1)}}), true)
	talk := func(from machine, to string) (ask func() error) {
		t.Helper()
		var c net.Conn
		var err error
		from.Within(func() { c, err = net.Dial("udp4", to) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return func() error {
			_, err := c.Write([]byte("who?"))
			if err == nil {
				err = c.SetReadDeadline(time.Now().Add(3 * time.Second))
			}
			if err == nil {
				_, err = c.Read(make([]byte, 200))
			}
			return err
		}
	}
	in := talk(n.pods[0], podIP(1).String()+":80")
	byService, out := talk(n.pods[0], "10.96.0.1:53"), talk(n.pods[1], podIP(2).String()+":80")
	other := talk(n.pods[0], podIP(2).String()+":80")
	for name, ask := range map[string]func() error{"in": in, "by service": byService, "out": out, "other": other} {
		if err := ask(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	n.filter(t, isolated(map[int]*forward.Isolation{1: {Ingress: nobody, Egress: nobody}, 2: {Ingress: nobody}}, nil), true)
	if err := n.Forget([]netip.Addr{podIP(1), podIP6(1)}); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func() error{"in": in, "by service": byService, "out": out} {
		if err := ask(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s, a former pod's flow goes on: %v", name, err)
		}
	}
	if err := other(); err != nil {
		t.Errorf("another pod's flow has ended: %v", err)
	}
}

// flows are the ports that UDP flows went to, which the machine remembers.
func (n *node) flows(t *testing.T) (ports []uint16) {
	t.Helper()
	n.Within(func() {
		all, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		if err != nil {
			t.Error(err)
		}
		for _, f := range all {
			if f.Forward.Protocol == unix.IPPROTO_UDP {
				ports = append(ports, f.Forward.DstPort)
			}
		}
	})
	slices.Sort(ports)
	return ports
}
