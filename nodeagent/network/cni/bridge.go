package cni

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// checkBridge refuses to work where two bridges would claim one range, or the
// node's bridge has another: pods would answer for each other.
func (n *Network) checkBridge() error {
	ifaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("look at the machine's interfaces: %w", err)
	}
	for _, iface := range ifaces {
		if isTunnel(iface.Name) { // it has an address of ours, and follows the peers
			continue
		}
		addrs, err := iface.Addrs()
		if err != nil {
			continue // it went away
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().IsLinkLocalUnicast() || p.Addr().IsLoopback() {
				continue
			}
			if err := n.checkAddress(iface.Name, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *Network) checkAddress(iface string, p netip.Prefix) error {
	if iface != n.cfg.Bridge {
		for _, r := range n.cfg.PodRanges {
			if r.Overlaps(p.Masked()) {
				return fmt.Errorf("pod range %s overlaps %s of interface %s: give this node another range, or remove what is left of another (ip link del %s)",
					r, p.Masked(), iface, iface)
			}
		}
		return nil
	}
	for _, r := range n.cfg.PodRanges {
		if r == p.Masked() {
			return nil
		}
	}
	used, err := used(iface)
	if err != nil {
		return err
	}
	if used {
		return fmt.Errorf("bridge %s has the range %s, not %v, and pods on it: another agent on this machine uses it, so name another bridge, or it is left over (ip link del %s)",
			iface, p.Masked(), n.cfg.PodRanges, iface)
	}
	// Left from a former range of this node: it is made anew.
	return removeLink(iface)
}

// makeBridge makes the bridge as the plugin would with the first pod: the machine
// has its address from then on, by which pods reach what runs on the machine.
func (n *Network) makeBridge() error {
	err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: n.cfg.Bridge, MTU: n.cfg.MTU, TxQLen: -1}})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make bridge %s: %w", n.cfg.Bridge, err)
	}
	link, err := netlink.LinkByName(n.cfg.Bridge)
	if err != nil {
		return fmt.Errorf("make bridge %s: %w", n.cfg.Bridge, err)
	}
	// Said to be its own, the hardware address does not follow the pods' links.
	if err := netlink.LinkSetHardwareAddr(link, link.Attrs().HardwareAddr); err != nil {
		return fmt.Errorf("have bridge %s keep its hardware address: %w", n.cfg.Bridge, err)
	}
	for _, r := range n.cfg.PodRanges {
		gateway := &net.IPNet{IP: Gateway(r).AsSlice(), Mask: net.CIDRMask(r.Bits(), r.Addr().BitLen())}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: gateway}); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("give bridge %s the address %s: %w", n.cfg.Bridge, gateway, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("switch on bridge %s: %w", n.cfg.Bridge, err)
	}
	return nil
}

// Gateway is the machine's own address in a node's range: its first.
func Gateway(r netip.Prefix) netip.Addr { return r.Masked().Addr().Next() }

// used tells whether something is connected to a bridge.
func used(bridge string) (bool, error) {
	link, err := netlink.LinkByName(bridge)
	if err != nil {
		return false, fmt.Errorf("look at bridge %s: %w", bridge, err)
	}
	all, err := whole(netlink.LinkList)
	if err != nil {
		return false, fmt.Errorf("look at bridge %s: %w", bridge, err)
	}
	return slices.ContainsFunc(all, func(l netlink.Link) bool { return l.Attrs().MasterIndex == link.Attrs().Index }), nil
}

// removeLink takes a device away, if it is there.
func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	var absent netlink.LinkNotFoundError
	if errors.As(err, &absent) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
