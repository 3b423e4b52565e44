package cni

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Of the tunnel: one network, at the port that IANA gave to VXLAN's forerunner and
// that Linux and other pod networks use.
const (
	vni       = 1
	vxlanPort = 8472
)

// tunnel is the vxlan device between nodes of one family.
type tunnel struct {
	name     string
	bits     int // of an address
	overhead int // of headers, outside and inside
}

var (
	tunnel4 = tunnel{"berth.1", 32, 50}
	tunnel6 = tunnel{"berth6.1", 128, 70}
)

// isTunnel tells our devices from those of others.
func isTunnel(name string) bool { return name == tunnel4.name || name == tunnel6.name }

// tunnelled is a peer that is not on a link with us.
type tunnelled struct {
	Peer
	link int // by which its address is reached
}

// of gives those of its family.
func (t tunnel) of(far []tunnelled) []tunnelled {
	return slices.DeleteFunc(slices.Clone(far), func(p tunnelled) bool { return p.Via.BitLen() != t.bits })
}

// dig makes the device for the peers of its family, with all that it has to know
// of them: it learns nothing, and asks nobody. Without peers the device goes.
func (n *Network) dig(t tunnel, self []netip.Addr, far []tunnelled) (map[netip.Prefix]hop, error) {
	peers := t.of(far)
	if len(peers) == 0 {
		return nil, t.remove()
	}
	i := slices.IndexFunc(self, func(a netip.Addr) bool { return a.BitLen() == t.bits })
	if i < 0 {
		return nil, fmt.Errorf("no tunnel to %s: this node tells no address of its family", peers[0].Via)
	}
	link, err := n.device(t, self[i], peers)
	if err != nil {
		return nil, err
	}
	own := n.ownOf(t)
	if err := setAddresses(link, own); err != nil {
		return nil, err
	}
	entries, hops, errs := t.entries(link.Attrs().Index, self[i], own, peers)
	errs = append(errs, setNeighbours(link.Attrs().Index, entries))
	return hops, errors.Join(errs...)
}

// ownOf is the address from which this machine itself speaks through the tunnel:
// the first of its pods' range, which no pod gets, and which others answer through
// the tunnel too.
func (n *Network) ownOf(t tunnel) netip.Addr {
	for _, r := range n.cfg.PodRanges {
		if r.Addr().BitLen() == t.bits {
			return r.Addr()
		}
	}
	return netip.Addr{}
}

// hardware gives the device's address on the inside of a node. It is derived, so
// that nobody has to tell it: of IPv4 no two nodes have the same; of IPv6 it is a
// hash, and entries sees to those that meet.
func hardware(node netip.Addr) net.HardwareAddr {
	if node.Is4() {
		return append(net.HardwareAddr{0x0a, 0x62}, node.AsSlice()...) // locally administered
	}
	sum := sha256.Sum256(node.AsSlice())
	mac := net.HardwareAddr(sum[:6])
	mac[0] = mac[0]&^3 | 2
	return mac
}

// tryTunnel says at start where this kernel has no tunnels: most clusters need none,
// and who does should not have to wait for the first node behind a router.
func (n *Network) tryTunnel() {
	const name = "berth.try"
	if n.own() {
		return
	}
	err := n.cfg.addTunnel(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: name}, VxlanId: 1<<24 - 1, Port: vxlanPort})
	if errors.Is(err, unix.EOPNOTSUPP) {
		n.cfg.Log.Info("this kernel has no vxlan: pods of nodes that are not on a link with this one will not be reached; those on a link are, and all else works", "err", err)
		return
	}
	if err := removeLink(name); err != nil {
		n.cfg.Log.Debug("try a tunnel", "err", err)
	}
}

// device finds the device as it should be, or makes it.
func (n *Network) device(t tunnel, self netip.Addr, peers []tunnelled) (netlink.Link, error) {
	want := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: t.name, HardwareAddr: hardware(self), Flags: net.FlagUp},
		VxlanId:   vni, Port: vxlanPort, SrcAddr: self.AsSlice(), Learning: false,
	}
	for _, p := range peers {
		under, err := netlink.LinkByIndex(p.link)
		if err != nil {
			return nil, fmt.Errorf("find the link to %s: %w", p.Via, err)
		}
		if mtu := under.Attrs().MTU - t.overhead; want.MTU == 0 || mtu < want.MTU {
			want.MTU = mtu
		}
	}
	have, err := netlink.LinkByName(t.name)
	if err == nil && !t.same(have, want) {
		err = errors.Join(t.remove(), netlink.LinkNotFoundError{})
	}
	var absent netlink.LinkNotFoundError
	if errors.As(err, &absent) {
		if err := n.cfg.addTunnel(want); err != nil {
			return nil, t.explain(err, peers)
		}
		have, err = netlink.LinkByName(t.name)
	}
	if err != nil {
		return nil, fmt.Errorf("make the tunnel %s: %w", t.name, err)
	}
	if have.Attrs().MTU != want.MTU {
		if err := netlink.LinkSetMTU(have, want.MTU); err != nil {
			return nil, fmt.Errorf("make the tunnel %s: set its MTU to %d: %w", t.name, want.MTU, err)
		}
	}
	if err := netlink.LinkSetUp(have); err != nil {
		return nil, fmt.Errorf("make the tunnel %s: %w", t.name, err)
	}
	return have, nil
}

func (t tunnel) same(link netlink.Link, want *netlink.Vxlan) bool {
	have, ok := link.(*netlink.Vxlan)
	return ok && have.VxlanId == want.VxlanId && have.Port == want.Port && have.SrcAddr.Equal(want.SrcAddr) && !have.Learning &&
		bytes.Equal(have.HardwareAddr, want.HardwareAddr)
}

// explain adds what to do.
func (t tunnel) explain(err error, peers []tunnelled) error {
	what := fmt.Sprintf("the pods of %d nodes, such as %s, which are not on a link with this one, cannot be reached", len(peers), peers[0].Via)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%s: this kernel has no vxlan: load its module, or put the machines on one link: %w", what, err)
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s: another vxlan device has the network %d at port %d: remove it, or the pod network that made it: %w", what, vni, vxlanPort, err)
	}
	return fmt.Errorf("%s: make the tunnel %s: %w", what, t.name, err)
}

// remove takes the device away, and with it what it knew and the routes by it.
func (t tunnel) remove() error {
	if err := removeLink(t.name); err != nil {
		return fmt.Errorf("tunnel: %w", err)
	}
	return nil
}

// neighbour is an entry of the device: of a peer's gateway, or, with outside, of
// the node to which packets for an address go.
type neighbour struct {
	address  netip.Addr
	hardware string
	outside  bool
}

// entries gives what the device has to know, and where the ranges are.
func (t tunnel) entries(link int, self, own netip.Addr, peers []tunnelled) (all map[neighbour]bool, hops map[netip.Prefix]hop, errs []error) {
	all, hops = map[neighbour]bool{}, map[netip.Prefix]hop{}
	taken := map[string]netip.Addr{hardware(self).String(): self}
	for _, p := range peers {
		mac := hardware(p.Via).String()
		if other, ok := taken[mac]; ok && other != p.Via {
			errs = append(errs, fmt.Errorf("no tunnel to %s: its address cannot be told from %s: give that node another", p.Via, other))
			continue
		}
		taken[mac] = p.Via
		gateway := p.Range.Addr()
		all[neighbour{p.Via, mac, true}], all[neighbour{gateway, mac, false}] = true, true
		hops[p.Range] = hop{via: gateway, link: link, onLink: true, src: own}
	}
	return all, hops, errs
}

// setNeighbours makes the device know exactly these.
func setNeighbours(link int, want map[neighbour]bool) error {
	had := map[neighbour]bool{}
	var errs []error
	for _, family := range []int{unix.AF_BRIDGE, unix.AF_INET, unix.AF_INET6} {
		all, err := whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(link, family) })
		if err != nil {
			return fmt.Errorf("list neighbours: %w", err)
		}
		for _, e := range all {
			a, ok := netip.AddrFromSlice(e.IP)
			if !ok || e.State&unix.NUD_PERMANENT == 0 || a.IsMulticast() {
				continue
			}
			k := neighbour{a.Unmap(), e.HardwareAddr.String(), family == unix.AF_BRIDGE}
			if had[k] = true; want[k] {
				continue
			}
			if err := netlink.NeighDel(k.entry(link)); err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("remove the neighbour %s: %w", k.address, err))
			}
		}
	}
	for k := range want {
		if had[k] {
			continue
		}
		if err := netlink.NeighSet(k.entry(link)); err != nil {
			errs = append(errs, fmt.Errorf("set the neighbour %s: %w", k.address, err))
		}
	}
	return errors.Join(errs...)
}

func (k neighbour) entry(link int) *netlink.Neigh {
	mac, err := net.ParseMAC(k.hardware)
	if err != nil {
		mac = nil // an entry of others without one
	}
	e := &netlink.Neigh{LinkIndex: link, State: netlink.NUD_PERMANENT, IP: k.address.AsSlice(), HardwareAddr: mac}
	switch {
	case k.outside:
		e.Family, e.Flags = unix.AF_BRIDGE, netlink.NTF_SELF
	case k.address.Is4():
		e.Family = unix.AF_INET
	default:
		e.Family = unix.AF_INET6
	}
	return e
}

// setAddresses gives a device this address alone, beside those of its link.
func setAddresses(link netlink.Link, want netip.Addr) error {
	all, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, unix.AF_UNSPEC) })
	if err != nil {
		return fmt.Errorf("list the addresses of %s: %w", link.Attrs().Name, err)
	}
	has := false
	for _, one := range all {
		a, ok := netip.AddrFromSlice(one.IP)
		if !ok || a.IsLinkLocalUnicast() {
			continue
		}
		if a.Unmap() == want {
			has = true
		} else if err := netlink.AddrDel(link, &one); err != nil {
			return fmt.Errorf("remove the address %s of %s: %w", one.IP, link.Attrs().Name, err)
		}
	}
	if has || !want.IsValid() {
		return nil
	}
	one := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(want, want.BitLen())), Flags: unix.IFA_F_NODAD}
	if err := netlink.AddrAdd(link, one); err != nil {
		return fmt.Errorf("give %s the address %s: %w", link.Attrs().Name, want, err)
	}
	return nil
}
