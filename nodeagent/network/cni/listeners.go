package cni

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Listeners implements network.Network.
func (n *Network) Listeners(id string) ([]uint16, error) {
	ns, err := netns.GetFromPath(n.netns(id))
	if err != nil {
		return nil, fmt.Errorf("open the pod's network namespace: %w", err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask for the pod's sockets: %w", err)
	}
	defer h.Close()
	var ports []uint16
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := h.SocketDiagTCP(family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // what came meanwhile is seen next time
			return nil, fmt.Errorf("ask for the pod's sockets: %w", err)
		}
		for _, s := range sockets {
			if s.State == netlink.TCP_LISTEN && !s.ID.Source.IsLoopback() {
				ports = append(ports, s.ID.SourcePort)
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), nil
}
