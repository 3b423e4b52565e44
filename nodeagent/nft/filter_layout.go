package nft

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// filterVersion of the constant rules of policies. One more when they change:
// the table is then made anew.
const filterVersion = 1

// Names in the table of policies, and what names of peers' sets begin with.
const (
	mapEgress   = "egress"
	mapIngress  = "ingress"
	setItself   = "itself"
	chainIn     = "in"
	deniedOut   = "denied-egress"
	deniedIn    = "denied-ingress"
	peersSet    = "p-"
	namedSet    = "n-"
	rangesSet   = "b-"
	egressChain = "e"
)

func (f *family) filterMarker() string {
	sum := sha256.Sum256(fmt.Append(nil, filterVersion))
	return "layout-" + hex.EncodeToString(sum[:6])
}

func (f *family) filterSets(t *nftables.Table) map[string]*nftables.Set {
	return map[string]*nftables.Set{
		mapEgress:  {Table: t, Name: mapEgress, IsMap: true, KeyType: f.address, DataType: nftables.TypeVerdict},
		mapIngress: {Table: t, Name: mapIngress, IsMap: true, KeyType: f.address, DataType: nftables.TypeVerdict},
		setItself:  {Table: t, Name: setItself, KeyType: nftables.MustConcatSetType(f.address, f.address)},
	}
}

// peers gives the set that a name stands for; nil for one that is none of policies.
func (f *family) peers(t *nftables.Table, name string) *nftables.Set {
	switch {
	case strings.HasPrefix(name, peersSet):
		return &nftables.Set{Table: t, Name: name, KeyType: f.address}
	case strings.HasPrefix(name, namedSet):
		return &nftables.Set{Table: t, Name: name, KeyType: nftables.MustConcatSetType(f.address, nftables.TypeInetProto, nftables.TypeInetService)}
	case strings.HasPrefix(name, rangesSet):
		return &nftables.Set{Table: t, Name: name, KeyType: f.address, Interval: true}
	}
	return nil
}

// filterChains gives the constant ones, those that are gone to first. Packets are
// seen as they are forwarded: from and to pods' own addresses, whatever service
// was asked. What the machine itself sends to its pods, or they to it, is not.
func (f *family) filterChains() []chain {
	denied := rule{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}}
	const known = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
	begun := append(rule{}, &expr.Ct{Key: expr.CtKeySTATE, Register: 1}).masked(native(known), native(0)).cmp(expr.CmpOpNeq, native(0)...)
	return []chain{
		{name: f.filterMarker()},
		{name: deniedOut, rules: []rule{denied}},
		{name: deniedIn, rules: []rule{denied}},
		{name: chainIn, rules: []rule{rule{}.key(f.daddr()).vmap(mapIngress), rule{}.verdict(expr.VerdictAccept, "")}},
		{"forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, []rule{
			begun.verdict(expr.VerdictAccept, ""),
			rule{}.key(f.saddr(), f.daddr()).in(setItself).verdict(expr.VerdictAccept, ""),
			rule{}.key(f.saddr()).vmap(mapEgress),
			rule{}.verdict(expr.VerdictGoto, chainIn),
		}},
	}
}

// A way is one of a pod's two directions.
type way struct {
	prefix string
	peer   func(*family) part
	pass   expr.Verdict
	denied string
}

var (
	egress  = way{egressChain, (*family).daddr, expr.Verdict{Kind: expr.VerdictGoto, Chain: chainIn}, deniedOut}
	ingress = way{"i", (*family).saddr, expr.Verdict{Kind: expr.VerdictAccept}, deniedIn}
)

// rendered is a chain for what is allowed, with the ranges of addresses that its
// rules name, by the names of their sets.
type rendered struct {
	made
	peers  []string
	ranges map[string][]forward.Range
	by     int
}

// render gives the chain of what is allowed in one direction: named after what is
// in it, so pods that are allowed the same share it.
func (f *family) render(w way, a *forward.Allowed) *rendered {
	out := &rendered{made: made{name: hashed(w.prefix, fmt.Sprint(a.List))}, ranges: map[string][]forward.Range{}}
	for i := range a.List {
		f.allow(out, w, &a.List[i])
	}
	out.rules = append(out.rules, rule{}.verdict(expr.VerdictGoto, w.denied))
	return out
}

func (f *family) allow(out *rendered, w way, a *forward.Allow) {
	from := rule{}
	switch {
	case a.Everybody:
	case a.Named:
		name := namedSet + string(a.Set)
		out.peers = append(out.peers, name)
		from = from.key(f.daddr(), protocol, dport).in(name)
	case a.Set != "":
		name := peersSet + string(a.Set)
		out.peers = append(out.peers, name)
		from = from.key(w.peer(f)).in(name)
	default:
		own := slices.DeleteFunc(slices.Clone(a.Ranges), func(r forward.Range) bool { return !f.has(r.First) })
		if len(own) == 0 {
			return
		}
		name := hashed("b", fmt.Sprint(own))
		out.ranges[name] = own
		out.peers = append(out.peers, name)
		from = from.key(w.peer(f)).in(name)
	}
	if len(a.Ports) == 0 || a.Named {
		out.rules = append(out.rules, append(from, &w.pass))
		return
	}
	ports := made{name: hashed("q", w.prefix, fmt.Sprint(a.Ports))}
	for _, p := range a.Ports {
		ports.rules = append(ports.rules, onPorts(p, &w.pass))
	}
	out.chains = append(out.chains, ports)
	out.rules = append(out.rules, from.verdict(expr.VerdictJump, ports.name))
}

// onPorts passes what is of a protocol and goes to one of some ports.
func onPorts(p forward.Ports, pass *expr.Verdict) rule {
	r := rule{}.key(protocol).cmp(expr.CmpOpEq, byte(p.Protocol))
	switch {
	case p.First == 0 && p.Last == 65535:
	case p.First == p.Last:
		r = r.key(dport).cmp(expr.CmpOpEq, portBytes(p.First)...)
	default:
		r = append(r.key(dport), &expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: portBytes(p.First), ToData: portBytes(p.Last)})
	}
	return append(r, pass)
}

func portBytes(p uint16) []byte { return []byte{byte(p >> 8), byte(p)} }

// intervals are ranges as a set of them has them.
func intervals(ranges []forward.Range) (out []nftables.SetElement) {
	for _, r := range ranges {
		out = append(out, nftables.SetElement{Key: r.First.AsSlice()})
		if end := r.Last.Next(); end.IsValid() {
			out = append(out, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	return out
}
