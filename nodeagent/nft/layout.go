package nft

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// version of the constant rules. One more when they change: the table is then
// made anew.
const version = 5

// Names of sets and maps.
const (
	setPods            = "pods"
	setVirtual         = "virtual"
	setHairpin         = "hairpin"
	mapGuarded         = "guarded"
	mapServices        = "services"
	mapOutside         = "outside"
	mapBackends        = "backends"
	mapOutsideBackends = "outside-backends"
	mapPorts           = "nodeports"
	mapOutsidePorts    = "outside-nodeports"
	mapPortBackends    = "nodeport-backends"
	mapOutsidePortBack = "outside-nodeport-backends"
	// Fronts whose connections are counted: addresses, ports, and ports that others
	// than pods come to by a way of their own.
	setCounted             = "connections"
	setCountedPorts        = "nodeport-connections"
	setCountedOutsidePorts = "outside-nodeport-connections"
)

// chainReject answers that there is nobody.
const chainReject = "refuse"

// marker names a chain that says which layout a table has.
func (f *family) marker(cfg Config) string {
	sum := sha256.Sum256(fmt.Append(nil, version, cfg.Bridge, cfg.PodRanges, cfg.ClusterRanges, cfg.Names, cfg.NoLoopback, cfg.Tunnels))
	return "layout-" + hex.EncodeToString(sum[:6])
}

// sets gives all of them, empty but for the pods' ranges.
func (f *family) sets(t *nftables.Table) map[string]*nftables.Set {
	front := nftables.MustConcatSetType(f.address, nftables.TypeInetProto, nftables.TypeInetService)
	choice := nftables.MustConcatSetType(f.address, nftables.TypeInetProto, nftables.TypeInetService, nftables.TypeMark)
	port := nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)
	portChoice := nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService, nftables.TypeMark)
	backend := nftables.MustConcatSetType(f.address, nftables.TypeInetService)
	out := map[string]*nftables.Set{
		setPods:    {KeyType: f.address, Interval: true},
		setVirtual: {KeyType: f.address},
		setHairpin: {KeyType: nftables.MustConcatSetType(f.address, f.address)},
	}
	for _, name := range []string{mapGuarded, mapServices, mapOutside} {
		out[name] = &nftables.Set{IsMap: true, KeyType: front, DataType: nftables.TypeVerdict}
	}
	for _, name := range []string{mapPorts, mapOutsidePorts} {
		out[name] = &nftables.Set{IsMap: true, KeyType: port, DataType: nftables.TypeVerdict}
	}
	for _, name := range []string{mapBackends, mapOutsideBackends} {
		out[name] = &nftables.Set{IsMap: true, KeyType: choice, DataType: backend}
	}
	for _, name := range []string{mapPortBackends, mapOutsidePortBack} {
		out[name] = &nftables.Set{IsMap: true, KeyType: portChoice, DataType: backend}
	}
	out[setCounted] = &nftables.Set{KeyType: front, Counter: true}
	for _, name := range []string{setCountedPorts, setCountedOutsidePorts} {
		out[name] = &nftables.Set{KeyType: port, Counter: true}
	}
	for name, s := range out {
		s.Table, s.Name = t, name
	}
	return out
}

// podElements are the ranges of all pods of the cluster, as an interval set has them.
func (f *family) podElements(ranges []netip.Prefix) (out []nftables.SetElement) {
	for _, r := range ranges {
		if f.has(r.Addr()) {
			out = append(out, nftables.SetElement{Key: r.Masked().Addr().AsSlice()})
			if end := after(r); end.IsValid() {
				out = append(out, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
			}
		}
	}
	return out
}

// after is the first address behind a range; invalid if there is none.
func after(r netip.Prefix) netip.Addr {
	last := r.Masked().Addr().AsSlice()
	for i := r.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(last)
	return a.Next()
}

// chains gives the constant ones, those that are gone to first.
func (f *family) chains(cfg Config) []chain {
	front, port := []part{f.daddr(), protocol, dport}, []part{protocol, dport}
	toPorts := func() rule {
		r := rule{}.local(expr.CmpOpEq, false)
		if f.is4() { // of the loopback's addresses the first alone
			r = append(r.key(f.daddr()), &expr.Range{Op: expr.CmpOpNeq, Register: 1, FromData: []byte{127, 0, 0, 2}, ToData: []byte{127, 255, 255, 255}})
		}
		return r.key(port...)
	}
	nat, filter := nftables.ChainTypeNAT, nftables.ChainTypeFilter
	return []chain{
		{name: f.marker(cfg)},
		{name: chainReject, rules: []rule{{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: f.unreachable()}}}},
		{name: "foreign", rules: []rule{
			rule{}.key(front...).vmap(mapOutside),
			toPorts().in(setCountedOutsidePorts),
			toPorts().vmap(mapOutsidePorts),
		}},
		{name: "services", rules: append(f.exempt(cfg),
			rule{}.key(front...).vmap(mapGuarded),
			rule{}.key(front...).in(setCounted), // and on
			rule{}.key(f.saddr()).notIn(setPods).local(expr.CmpOpNeq, true).verdict(expr.VerdictJump, "foreign"),
			rule{}.key(front...).vmap(mapServices),
			rule{}.key(f.daddr()).in(setVirtual).verdict(expr.VerdictGoto, chainReject),
			toPorts().in(setCountedPorts),
			toPorts().vmap(mapPorts),
		)},
		{"prerouting", nat, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest, []rule{rule{}.verdict(expr.VerdictJump, "services")}},
		{"output", nat, nftables.ChainHookOutput, nftables.ChainPriorityNATDest, []rule{rule{}.verdict(expr.VerdictJump, "services")}},
		{"postrouting", nat, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, f.postrouting(cfg)},
		{"guard", filter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw, f.guard(cfg)},
		{"tunnels", filter, nftables.ChainHookForward, nftables.ChainPriorityMangle, clamp(cfg.Tunnels)},
		{"redirects", filter, nftables.ChainHookOutput, nftables.ChainPriorityFilter, []rule{
			rule{}.device(expr.MetaKeyOIFNAME, cfg.Bridge).key(protocol).cmp(expr.CmpOpEq, f.redirect[0]).
				key(payload(expr.PayloadBaseTransportHeader, 0, 1)).cmp(expr.CmpOpEq, f.redirect[1]).verdict(expr.VerdictDrop, ""),
		}},
	}
}

// exempt leaves connections to some addresses of the machine alone: whatever port of
// the machine somebody has, it is not one of these.
func (f *family) exempt(cfg Config) (out []rule) {
	all := cfg.Names
	if f.is4() && cfg.NoLoopback {
		out = append(out, rule{}.key(f.daddr()).within(expr.CmpOpEq, loopback4).verdict(expr.VerdictReturn, ""))
	}
	if !f.is4() { // it is not routed to pods by any setting
		all = append([]netip.Addr{netip.IPv6Loopback()}, all...)
	}
	for _, a := range all {
		if f.has(a) {
			out = append(out, rule{}.key(f.daddr()).cmp(expr.CmpOpEq, a.AsSlice()...).verdict(expr.VerdictReturn, ""))
		}
	}
	return out
}

// clamp has connections through a tunnel begin with segments that fit it, both ways:
// clients elsewhere do not know of it, and many hear no ICMP that says so.
func clamp(tunnels []string) (out []rule) {
	const syn, rst, maxseg = 2, 4, 2
	flags := payload(expr.PayloadBaseTransportHeader, 13, 1)
	for _, name := range tunnels {
		for _, way := range []expr.MetaKey{expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME} {
			begins := rule{}.device(way, name).key(protocol).cmp(expr.CmpOpEq, unix.IPPROTO_TCP).
				key(flags).masked([]byte{syn | rst}, []byte{0}).cmp(expr.CmpOpEq, syn)
			out = append(out, append(begins,
				&expr.Rt{Register: 1, Key: expr.RtTCPMSS},
				&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 2, Size: 2},
				&expr.Exthdr{SourceRegister: 1, Type: maxseg, Offset: 2, Len: 2, Op: expr.ExthdrOpTcpopt}))
		}
	}
	return out
}

// unreachable is the code of "port unreachable".
func (f *family) unreachable() uint8 {
	if f.is4() {
		return 3
	}
	return 4
}

func (f *family) postrouting(cfg Config) []rule {
	none := native(0)
	marked := append(rule{}, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1}).masked(native(masqueradeMark), none).cmp(expr.CmpOpNeq, none...)
	marked = append(marked, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1}).masked(native(^uint32(0)), native(masqueradeMark))
	marked = append(marked, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true})
	const dnat = 0x20 // IPS_DST_NAT
	itself := append(rule{}, &expr.Ct{Key: expr.CtKeySTATUS, Register: 1}).masked(native(dnat), none).cmp(expr.CmpOpNeq, none...)
	out := []rule{marked.masquerade(), itself.key(f.saddr(), f.daddr()).in(setHairpin).masquerade()}
	for _, r := range cfg.PodRanges { // what leaves the cluster
		if f.has(r.Addr()) {
			out = append(out, rule{}.key(f.saddr()).within(expr.CmpOpEq, r).key(f.daddr()).notIn(setPods).
				key(f.daddr()).within(expr.CmpOpNeq, f.multicast).masquerade())
		}
	}
	return out
}

var loopback4 = netip.MustParsePrefix("127.0.0.0/8")

// guard keeps pods from what only the machine itself may reach, as route_localnet
// lets packets to 127.0.0.0/8 in at the bridge, and from sending by addresses that
// are no pod's of this node, which policies would take for somebody else's.
func (f *family) guard(cfg Config) []rule {
	bridge := func() rule { return rule{}.device(expr.MetaKeyIIFNAME, cfg.Bridge) }
	var out []rule
	if f.is4() {
		for _, p := range []part{f.daddr(), f.saddr()} {
			out = append(out, bridge().key(p).within(expr.CmpOpEq, loopback4).verdict(expr.VerdictDrop, ""))
		}
	}
	foreign, has := bridge(), false
	for _, r := range cfg.PodRanges {
		if f.has(r.Addr()) {
			foreign, has = foreign.key(f.saddr()).within(expr.CmpOpNeq, r), true
		}
	}
	if !has {
		return out
	}
	if !f.is4() { // of the link alone, and who looks for an address
		for _, p := range []string{"fe80::/10", "::/128"} {
			foreign = foreign.key(f.saddr()).within(expr.CmpOpNeq, netip.MustParsePrefix(p))
		}
	}
	return append(out, foreign.verdict(expr.VerdictDrop, ""))
}
