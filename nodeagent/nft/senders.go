package nft

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// sendersMarker names a chain that says which layout the table has: another number
// when the constant rules change.
const sendersMarker = "layout-1"

// Names in the table of senders.
const (
	setPorts    = "ports"
	setStations = "stations" // port and hardware address
	setSenders  = "senders"  // these and an address
	setSenders6 = "senders6"
	chainBound  = "bound"
)

// Sender is who sends from a port of the bridge: a pod.
type Sender struct {
	Port string
	MAC  net.HardwareAddr
	IPs  []netip.Addr
}

// senders is the table that binds ports of the bridge to their pods' addresses. What
// the machine sees of a packet by IP is from the bridge, whose port it came by is
// not told there: so this is a table of bridges.
type senders struct {
	kernel *Kernel
	nft    *nftables.Table
	sets   map[string]*nftables.Set
	bound  map[string]Sender // by owner
	// complete: all that is wanted is known.
	complete bool
}

func newSenders(k *Kernel) *senders {
	t := &nftables.Table{Family: nftables.TableFamilyBridge, Name: "berth-" + k.cfg.Bridge}
	port, station := nftables.TypeIFName, nftables.TypeEtherAddr
	s := &senders{kernel: k, nft: t, bound: map[string]Sender{}, sets: map[string]*nftables.Set{
		setPorts:    {KeyType: port},
		setStations: {KeyType: nftables.MustConcatSetType(port, station)},
		setSenders:  {KeyType: nftables.MustConcatSetType(port, station, nftables.TypeIPAddr)},
		setSenders6: {KeyType: nftables.MustConcatSetType(port, station, nftables.TypeIP6Addr)},
	}}
	for name, set := range s.sets {
		set.Table, set.Name = t, name
	}
	return s
}

// sendersChains gives the constant ones, those that are gone to first. A bound port
// sends IP and ARP alone, as what its pod is; a link-local address is anybody's who
// has the hardware address, as is none, by which a pod asks whether one is free.
func sendersChains() []chain {
	four, six := families[0], families[1]
	port := part{16, func(r uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: r} }}
	station := payload(expr.PayloadBaseLLHeader, 6, 6)
	kind := part{2, func(r uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: r} }}
	arpSender := payload(expr.PayloadBaseNetworkHeader, 14, 4)
	type16 := func(n uint16) rule { return rule{}.key(kind).cmp(expr.CmpOpEq, byte(n>>8), byte(n)) }
	linkLocal, nobody := netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("::/128")
	const neighbourAdvertisement = 136
	told := payload(expr.PayloadBaseTransportHeader, 8, 16)
	pass := func(r rule) rule { return r.verdict(expr.VerdictAccept, "") }
	return []chain{
		{name: sendersMarker},
		{name: chainBound, rules: []rule{
			pass(type16(unix.ETH_P_IP).key(port, station, four.saddr()).in(setSenders)),
			type16(unix.ETH_P_IPV6).key(protocol).cmp(expr.CmpOpEq, unix.IPPROTO_ICMPV6).
				key(payload(expr.PayloadBaseTransportHeader, 0, 1)).cmp(expr.CmpOpEq, neighbourAdvertisement).
				key(told).within(expr.CmpOpNeq, linkLocal).key(port, station, told).notIn(setSenders6).verdict(expr.VerdictDrop, ""),
			pass(type16(unix.ETH_P_IPV6).key(port, station, six.saddr()).in(setSenders6)),
			pass(type16(unix.ETH_P_IPV6).key(six.saddr()).within(expr.CmpOpEq, linkLocal).key(port, station).in(setStations)),
			pass(type16(unix.ETH_P_IPV6).key(six.saddr()).within(expr.CmpOpEq, nobody).key(port, station).in(setStations)),
			pass(type16(unix.ETH_P_ARP).key(port, station, arpSender).in(setSenders)),
			pass(type16(unix.ETH_P_ARP).key(arpSender).cmp(expr.CmpOpEq, 0, 0, 0, 0).key(port, station).in(setStations)),
			rule{}.verdict(expr.VerdictDrop, ""),
		}},
		{"prerouting", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw, []rule{
			rule{}.key(port).in(setPorts).verdict(expr.VerdictGoto, chainBound),
		}},
	}
}

// lay makes the table and its constant part, unless it is there.
func (s *senders) lay() error {
	c, err := s.kernel.conn()
	if err != nil {
		return err
	}
	all := sendersChains()
	whole, exists, err := holds(c, s.nft, all)
	if err != nil || whole {
		return err
	}
	if exists {
		c.DelTable(s.nft)
	}
	c.AddTable(s.nft)
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		if err := addSet(c, s.sets[name], nil); err != nil {
			return err
		}
	}
	addChains(c, s.nft, all)
	s.kernel.sent.Add(int64(len(s.sets) + len(all)))
	return s.kernel.flush(c)
}

// keys are the elements that there shall be, by set.
func (s *senders) keys() map[string][]string {
	out := map[string][]string{}
	for _, b := range s.bound {
		port, station := string(padded(b.Port)), string(b.MAC)+"\x00\x00"
		out[setPorts] = append(out[setPorts], port)
		out[setStations] = append(out[setStations], port+station)
		for _, a := range b.IPs {
			set := setSenders
			if a.Is6() {
				set = setSenders6
			}
			out[set] = append(out[set], port+station+string(a.AsSlice()))
		}
	}
	for name := range out {
		slices.Sort(out[name])
		out[name] = slices.Compact(out[name])
	}
	return out
}

// program makes the kernel have all that is bound, and nothing else, in one
// transaction.
func (s *senders) program() error {
	c, err := s.kernel.conn()
	if err != nil {
		return err
	}
	keys, sent := s.keys(), 0
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		c.FlushSet(s.sets[name])
		for some := range slices.Chunk(keys[name], message) {
			var elements []nftables.SetElement
			for _, key := range some {
				elements = append(elements, nftables.SetElement{Key: []byte(key)})
			}
			if err := c.SetAddElements(s.sets[name], elements); err != nil {
				return err
			}
			sent += len(elements)
		}
	}
	if err := s.kernel.flush(c); err != nil {
		s.kernel.known = 0
		return err
	}
	s.kernel.sent.Add(int64(sent))
	return nil
}

// repair reads the kernel, and mends what differs.
func (s *senders) repair() error {
	if err := s.lay(); err != nil {
		return err
	}
	c, err := s.kernel.reader()
	if err != nil {
		return err
	}
	want := s.keys()
	for name, set := range s.sets {
		list, err := c.GetSetElements(set)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		var have []string
		for i := range list {
			have = append(have, string(list[i].Key))
		}
		slices.Sort(have)
		if !slices.Equal(have, want[name]) {
			return s.program()
		}
	}
	return nil
}

// openSenders finds the table of senders, or lays it; nil where the kernel cannot.
func openSenders(k *Kernel) (*senders, error) {
	s := newSenders(k)
	err := s.lay()
	if err != nil && missing(err) {
		k.cfg.Log.Info("this kernel has no nftables for bridges (CONFIG_NF_TABLES_BRIDGE): a pod with NET_RAW may send by its neighbours' addresses", "err", err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lay rules for what pods send by: %w", err)
	}
	return s, nil
}

// bind binds owners' ports; with complete, no others are.
func (s *senders) bind(ports map[string]Sender, complete bool) error {
	if complete {
		clear(s.bound)
	}
	maps.Copy(s.bound, ports)
	if complete {
		s.complete = true
		return s.repair()
	}
	return s.change()
}

func (s *senders) unbind(owner string) error {
	if _, bound := s.bound[owner]; !bound {
		return nil
	}
	delete(s.bound, owner)
	return s.change()
}

// change programs, and once more where the table is not as it was.
func (s *senders) change() error {
	err := s.program()
	if errors.Is(err, unix.ENOENT) {
		err = errors.Join(s.lay(), s.program())
	}
	if err != nil {
		return fmt.Errorf("bind pods' ports to their addresses: %w", err)
	}
	return nil
}
