package balancer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// most is at how many nodes' addresses one Service is answered, and told in its
// status.
const most = 16

// Node is one that can answer: ready, and not excluded from load balancers.
type Node struct {
	Name      string
	Addresses []netip.Addr
	// Keeps are ports that it has itself, and why, beside those that all keep.
	Keeps map[Port]string
}

// Port is one of nodes, for which Services compete.
type Port struct {
	Number   int32
	Protocol v1.Protocol
}

// Service is one that wants addresses.
type Service struct {
	*v1.Service
	// Near are the nodes where it has endpoints that are ready. It matters where
	// its traffic policy is Local.
	Near map[string]bool
}

// Result is what one Service gets.
type Result struct {
	Addresses []string
	// Node announces them; empty with Nodes, which have theirs, and where no node can.
	Node string
	// Missing says why there is not all that it wants.
	Missing string
	// Ignored is a loadBalancerIP where there is nothing to choose from.
	Ignored string
}

// Ours tells whether a Service is to get addresses from here.
func Ours(s *v1.Service) bool {
	return s.Spec.Type == v1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil &&
		(s.Spec.LoadBalancerClass == nil || *s.Spec.LoadBalancerClass == Class)
}

// Decide gives each Service its addresses. All are ours.
func (c Config) Decide(all []Service, nodes []Node) map[types.NamespacedName]Result {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	out := make(map[types.NamespacedName]Result, len(all))
	if c.Nodes {
		ports := map[Port]types.NamespacedName{}
		for _, s := range all {
			r := c.atNodes(s, nodes, ports)
			if !slices.Contains(r.Addresses, s.Spec.LoadBalancerIP) {
				r.Ignored = s.Spec.LoadBalancerIP
			}
			out[nameOf(s)] = r
		}
		return out
	}
	g := allocation{Config: c, by: map[netip.Addr]types.NamespacedName{}, from: make([]netip.Addr, len(c.Pools))}
	for _, s := range all { // what they have they keep
		g.keep(s)
	}
	for _, s := range all {
		r := g.give(s)
		if r.Node = announcer(s, nodes); r.Node == "" && r.Missing == "" {
			r.Missing = nobody(s)
		}
		out[nameOf(s)] = r
	}
	return out
}

func nameOf(s Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// nobody says why no node answers.
func nobody(s Service) string {
	if local(s) {
		return "externalTrafficPolicy is Local, and no node that can answer has an endpoint of it that is ready"
	}
	return "no node can answer: none is ready with an address that others reach"
}

func local(s Service) bool {
	return s.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal
}

// atNodes gives nodes' own addresses, if all ports are free there.
func (c Config) atNodes(s Service, nodes []Node, taken map[Port]types.NamespacedName) (r Result) {
	var wants []Port
	for i := range s.Spec.Ports {
		p := Port{s.Spec.Ports[i].Port, cmp.Or(s.Spec.Ports[i].Protocol, v1.ProtocolTCP)}
		free, why := c.free(p, nodes)
		if why != "" {
			return Result{Missing: fmt.Sprintf("port %d/%s is one that nodes keep: %s; choose another, or give the host a pool by --load-balancers", p.Number, p.Protocol, why)}
		}
		nodes = free
		if by, ok := taken[p]; ok {
			return Result{Missing: fmt.Sprintf("port %d/%s of the nodes is taken by Service %s; choose another, or give the host a pool by --load-balancers", p.Number, p.Protocol, by)}
		}
		wants = append(wants, p)
	}
	for _, p := range wants {
		taken[p] = nameOf(s)
	}
	addresses := []netip.Addr{}
	for i, n := range ranked(s, nodes) {
		if i == most {
			break
		}
		for _, a := range n.Addresses {
			if wantsFamily(s, a) {
				addresses = append(addresses, a)
			}
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	for _, a := range slices.Compact(addresses) {
		r.Addresses = append(r.Addresses, a.String())
	}
	if len(r.Addresses) == 0 {
		r.Missing = nobody(s)
	}
	return r
}

// free are the nodes that do not keep a port, or why none gives it away.
func (c Config) free(p Port, nodes []Node) (free []Node, why string) {
	if why, ok := c.Reserved[p]; ok {
		return nil, why
	}
	if p.Number >= c.First && p.Number <= c.Last {
		return nil, fmt.Sprintf("%d to %d are node ports", c.First, c.Last)
	}
	for _, n := range nodes {
		if kept, ok := n.Keeps[p]; ok {
			why = kept
		} else {
			free = append(free, n)
		}
	}
	if len(free) > 0 {
		return free, ""
	}
	return nil, why
}

func wantsFamily(s Service, a netip.Addr) bool {
	if a.Is4() {
		return slices.Contains(s.Spec.IPFamilies, v1.IPv4Protocol)
	}
	return slices.Contains(s.Spec.IPFamilies, v1.IPv6Protocol)
}

// allocation is who has which of the pools' addresses.
type allocation struct {
	Config
	by map[netip.Addr]types.NamespacedName
	// from is where a pool may have the first free address.
	from []netip.Addr
}

// keep has a Service go on with what its status says, if it may.
func (g *allocation) keep(s Service) {
	families := map[bool]bool{}
	for _, text := range has(s) {
		a, err := netip.ParseAddr(text)
		if err != nil || !g.within(a) || !wantsFamily(s, a) || families[a.Is4()] || !asked(s, a) {
			continue
		}
		if _, taken := g.by[a]; !taken {
			g.by[a], families[a.Is4()] = nameOf(s), true
		}
	}
}

func has(s Service) (all []string) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		all = append(all, in.IP)
	}
	return all
}

// asked tells whether a Service may have an address: its loadBalancerIP is the one
// of its family that it takes.
func asked(s Service, a netip.Addr) bool {
	want, err := netip.ParseAddr(s.Spec.LoadBalancerIP)
	return err != nil || want.Is4() != a.Is4() || want == a
}

// give finds an address of each family.
func (g *allocation) give(s Service) (r Result) {
	for _, family := range s.Spec.IPFamilies {
		a, why := g.one(s, family)
		switch {
		case why == "":
			g.by[a] = nameOf(s)
			r.Addresses = append(r.Addresses, a.String())
		case r.Missing == "":
			r.Missing = why
		}
	}
	// Of a Service that prefers two families one is enough.
	if len(r.Addresses) > 0 && ptr.Deref(s.Spec.IPFamilyPolicy, "") == v1.IPFamilyPolicyPreferDualStack {
		r.Missing = ""
	}
	return r
}

func (g *allocation) one(s Service, family v1.IPFamily) (netip.Addr, string) {
	is := func(a netip.Addr) bool { return a.Is4() == (family == v1.IPv4Protocol) }
	for _, text := range has(s) {
		if a, err := netip.ParseAddr(text); err == nil && is(a) && g.by[a] == nameOf(s) {
			return a, ""
		}
	}
	if want, err := netip.ParseAddr(s.Spec.LoadBalancerIP); err == nil && is(want) {
		by, taken := g.by[want]
		switch {
		case !g.within(want):
			return netip.Addr{}, fmt.Sprintf("its loadBalancerIP %s is in none of the pools %s", want, g.pools())
		case taken && by != nameOf(s):
			return netip.Addr{}, fmt.Sprintf("its loadBalancerIP %s is Service %s's", want, by)
		}
		return want, ""
	}
	some := false
	for i, p := range g.Pools {
		if !is(p.First) {
			continue
		}
		some = true
		if a := g.first(i); a.IsValid() {
			return a, ""
		}
	}
	if !some {
		return netip.Addr{}, fmt.Sprintf("none of the pools %s has addresses of %s", g.pools(), family)
	}
	return netip.Addr{}, fmt.Sprintf("no address of %s is free in the pools %s", family, g.pools())
}

// first is a pool's first address that nobody has: none is given back meanwhile.
func (g *allocation) first(pool int) netip.Addr {
	p := g.Pools[pool]
	if g.from[pool].IsValid() {
		p.First = g.from[pool]
	}
	for a := range p.all() {
		if _, taken := g.by[a]; !taken {
			g.from[pool] = a
			return a
		}
	}
	g.from[pool] = p.Last
	return netip.Addr{}
}

func (g *allocation) pools() string {
	texts := make([]string, len(g.Pools))
	for i, p := range g.Pools {
		texts[i] = p.String()
	}
	return strings.Join(texts, ",")
}

// announcer is the node that ranks first.
func announcer(s Service, nodes []Node) string {
	if all := ranked(s, nodes); len(all) > 0 {
		return all[0].Name
	}
	return ""
}

// ranked are the nodes that may answer for a Service, in an order of its own that
// stays when others come and go.
func ranked(s Service, nodes []Node) []Node {
	type place struct {
		Node
		rank uint64
	}
	var all []place
	for _, n := range nodes {
		if !local(s) || s.Near[n.Name] {
			all = append(all, place{n, rank(string(s.UID), n.Name)})
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Or(cmp.Compare(b.rank, a.rank), strings.Compare(a.Name, b.Name)) })
	out := make([]Node, len(all))
	for i, p := range all {
		out[i] = p.Node
	}
	return out
}

// rank hashes both: fnv's last bytes alone differ little between like names, so its
// sum is mixed once more.
func rank(service, node string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.LittleEndian.AppendUint64([]byte(service), uint64(len(service)))) // it never fails
	_, _ = h.Write([]byte(node))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
