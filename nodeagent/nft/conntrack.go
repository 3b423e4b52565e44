package nft

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// suspect notes which UDP fronts' flows may go where they should no more: those of a
// change, and with complete those, too, that the kernel has and the change does not
// name: a former process made them. UDP has no end that would make a client ask anew:
// it would go on to a backend that is gone.
func (t *table) suspect(c forward.Change, complete bool) {
	for at := range t.have {
		if !complete || at.set != setCounted && at.set != setCountedPorts {
			continue
		}
		if front, ok := t.frontOf(at.key); ok && front.Protocol == forward.UDP {
			t.stale[front] = true
		}
	}
	for front := range c.Fronts {
		if front.Protocol == forward.UDP && t.has(front.Addr) {
			t.stale[front] = true
		}
	}
}

// forget removes the kernel's memory of flows that go elsewhere than their fronts
// do now.
func (t *table) forget() error {
	if len(t.stale) == 0 {
		return nil
	}
	h, err := t.flowTable()
	if err != nil {
		return err
	}
	defer h.Close()
	addresses, err := h.AddrList(nil, int(t.conntrackFamily()))
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // which has most of them
		return fmt.Errorf("look at this machine's addresses: %w", err)
	}
	chosen := flows{table: t, own: map[netip.Addr]bool{}}
	for i := range addresses {
		if a, ok := netip.AddrFromSlice(addresses[i].IP); ok {
			chosen.own[a.Unmap()] = true
		}
	}
	if err := t.deleteFlows(h, chosen); err != nil {
		return err
	}
	clear(t.stale)
	return nil
}

// flowTable opens what the kernel remembers of flows.
func (t *table) flowTable() (*netlink.Handle, error) {
	return netlink.NewHandleAt(netns.NsHandle(t.kernel.ns.Fd()), unix.NETLINK_NETFILTER, unix.NETLINK_ROUTE)
}

// deleteFlows removes those of a family that are chosen.
func (t *table) deleteFlows(h *netlink.Handle, chosen netlink.CustomConntrackFilter) error {
	_, err := h.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.InetFamily(t.conntrackFamily()), chosen)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EINVAL) {
		return err // else it went by itself; or there are none in this kernel
	}
	return nil
}

func (t *table) conntrackFamily() uint8 {
	if t.is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// flows chooses stale ones.
type flows struct {
	*table
	own map[netip.Addr]bool // this machine's addresses, whose ports are node ports
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f flows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	to, ok := netip.AddrFromSlice(flow.Forward.DstIP)
	from, ok2 := netip.AddrFromSlice(flow.Reverse.SrcIP)
	if !ok || !ok2 {
		return false
	}
	to, from = to.Unmap(), from.Unmap()
	front := forward.Front{Addr: to, Port: flow.Forward.DstPort, Protocol: forward.UDP}
	if !f.stale[front] {
		front.Addr = unspecified(to)
		if !f.stale[front] || !f.own[to] {
			return false
		}
	}
	return !f.serves(front, netip.AddrPortFrom(from, flow.Reverse.SrcPort))
}

func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// serves tells whether a backend is one of a front's.
func (t *table) serves(front forward.Front, backend netip.AddrPort) bool {
	for _, b := range t.fronts[front].backends {
		if b == backend {
			return true
		}
	}
	return false
}

// forgetAll removes the kernel's memory of all flows from and to some addresses.
func (t *table) forgetAll(addresses flowsOf) error {
	h, err := t.flowTable()
	if err != nil {
		return err
	}
	defer h.Close()
	return t.deleteFlows(h, addresses)
}

// flowsOf chooses those from and to some addresses, before or after translation.
type flowsOf map[netip.Addr]bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f flowsOf) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	for _, ip := range []net.IP{flow.Forward.SrcIP, flow.Forward.DstIP, flow.Reverse.SrcIP, flow.Reverse.DstIP} {
		if a, ok := netip.AddrFromSlice(ip); ok && f[a.Unmap()] {
			return true
		}
	}
	return false
}
