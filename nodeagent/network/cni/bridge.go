package cni

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// checkBridge refuses to work where two bridges would claim one range, or the
// node's bridge has another: pods would answer for each other.
func (n *Network) checkBridge(ctx context.Context) error {
	ifaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("look at the machine's interfaces: %w", err)
	}
	for _, iface := range ifaces {
		addrs, err := iface.Addrs()
		if err != nil {
			continue // it went away
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().IsLinkLocalUnicast() || p.Addr().IsLoopback() {
				continue
			}
			if err := n.checkAddress(ctx, iface.Name, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *Network) checkAddress(ctx context.Context, iface string, p netip.Prefix) error {
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
	used, err := n.used(ctx, iface)
	if err != nil {
		return err
	}
	if used {
		return fmt.Errorf("bridge %s has the range %s, not %v, and pods on it: another agent on this machine uses it, so name another bridge, or it is left over (ip link del %s)",
			iface, p.Masked(), n.cfg.PodRanges, iface)
	}
	// Left from a former range of this node: the plugin makes it anew.
	return n.ip(ctx, "link", "del", iface)
}

// used tells whether something is connected to a bridge.
func (n *Network) used(ctx context.Context, bridge string) (bool, error) {
	links, err := n.run(ctx, "ip", "-o", "link", "show", "master", bridge)
	return links != "", err
}
