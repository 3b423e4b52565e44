package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeProtocol marks the routes that this package made (ip-route(8)); any
// number that the system does not use serves.
const routeProtocol = 182

// hop is where packets to a range go next.
type hop struct {
	via    netip.Addr
	link   int
	onLink bool // whatever the addresses of the link say
	src    netip.Addr
}

// SetPeers routes to the pods of other nodes, and removes routes to nodes that
// are gone. Nodes on a link with this one are reached by their address, others
// through a tunnel; self are this node's addresses as the others know them.
func (n *Network) SetPeers(ctx context.Context, self []netip.Addr, peers []Peer) error {
	if n.own() {
		return nil // the user's own CNI has its ways
	}
	chosen, errs := choose(n.cfg.PodRanges, self, peers)
	want := map[netip.Prefix]hop{}
	var far []tunnelled
	for _, p := range chosen {
		link, near, err := wayTo(p.Via)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("no way to the node %s: %w", p.Via, err))
		case near:
			want[p.Range] = hop{via: p.Via, link: link}
		default:
			far = append(far, tunnelled{p, link})
		}
	}
	for _, t := range []tunnel{tunnel4, tunnel6} {
		hops, err := n.dig(t, self, far)
		errs = append(errs, err)
		for r, h := range hops {
			want[r] = h
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(append(errs, layRoutes(want))...)
}

// wayTo gives the link by which a node is reached, and whether it is on it.
func wayTo(via netip.Addr) (link int, near bool, err error) {
	routes, err := netlink.RouteGet(via.AsSlice())
	if err != nil {
		return 0, false, err
	}
	r := routes[0]
	if r.Type == unix.RTN_LOCAL {
		return 0, false, errors.New("the address is this machine's own")
	}
	return r.LinkIndex, r.Gw == nil && r.Via == nil, nil
}

// layRoutes makes the wanted routes, and then removes those that are not.
func layRoutes(want map[netip.Prefix]hop) error {
	had, err := ownRoutes()
	if err != nil {
		return err
	}
	var errs []error
	for r, h := range want {
		if old, ok := had[r]; ok && hopOf(old) == h {
			continue
		}
		if err := netlink.RouteReplace(h.route(r)); err != nil {
			errs = append(errs, fmt.Errorf("route to %s via %s: %w", r, h.via, err))
		}
	}
	for r, old := range had {
		if _, ok := want[r]; ok {
			continue
		}
		if err := netlink.RouteDel(&old); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove the route to %s: %w", r, err))
		}
	}
	return errors.Join(errs...)
}

func (h hop) route(r netip.Prefix) *netlink.Route {
	out := &netlink.Route{Dst: ipNet(r), Gw: h.via.AsSlice(), LinkIndex: h.link, Protocol: routeProtocol}
	if h.onLink {
		out.Flags = int(netlink.FLAG_ONLINK)
	}
	if h.src.IsValid() {
		out.Src = h.src.AsSlice()
	}
	return out
}

// hopOf reads a route back.
func hopOf(r netlink.Route) hop {
	via, _ := netip.AddrFromSlice(r.Gw)
	src, _ := netip.AddrFromSlice(r.Src)
	return hop{via: via.Unmap(), link: r.LinkIndex, onLink: r.Flags&int(netlink.FLAG_ONLINK) != 0, src: src.Unmap()}
}

// ownRoutes lists those that this package made.
func ownRoutes() (map[netip.Prefix]netlink.Route, error) {
	out := map[netip.Prefix]netlink.Route{}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		all, err := whole(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range all {
			if r.Dst == nil {
				continue
			}
			addr, ok := netip.AddrFromSlice(r.Dst.IP)
			bits, _ := r.Dst.Mask.Size()
			if ok {
				out[netip.PrefixFrom(addr.Unmap(), bits)] = r
			}
		}
	}
	return out, nil
}

// whole asks again where the kernel's list changed while it was read.
func whole[T any](list func() ([]T, error)) (all []T, err error) {
	for range 5 {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
