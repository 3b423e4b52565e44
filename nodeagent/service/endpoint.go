package service

import (
	"cmp"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Node is what of this node matters.
type Node struct {
	Name, Zone string
	// Addresses by which others reach it.
	Addresses []netip.Addr
}

// endpoint is one of a service's port.
type endpoint struct {
	addr                        netip.AddrPort
	ready, serving, terminating bool
	local                       bool
	zones, nodes                []string
}

// endpoints gives those of a port of a service: of one family, each address once.
// What is no address, and ports that are none, are left out.
func endpoints(slicesOf []*discoveryv1.EndpointSlice, port string, protocol v1.Protocol, is4 bool, node Node) []endpoint {
	seen := map[netip.AddrPort]int{}
	var out []endpoint
	for _, s := range slicesOf {
		if s.AddressType != discoveryv1.AddressTypeIPv4 && s.AddressType != discoveryv1.AddressTypeIPv6 ||
			(s.AddressType == discoveryv1.AddressTypeIPv4) != is4 {
			continue
		}
		for i := range s.Ports {
			number, ok := portOf(&s.Ports[i], port, protocol)
			if !ok {
				continue
			}
			for j := range s.Endpoints {
				e, ok := endpointOf(&s.Endpoints[j], number, is4, node)
				if !ok {
					continue
				}
				if at, twice := seen[e.addr]; twice {
					out[at] = better(out[at], e)
					continue
				}
				seen[e.addr] = len(out)
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b endpoint) int { return a.addr.Compare(b.addr) })
	return out
}

// better is which of two entries to believe of one address: it moves from one
// slice to another, or a pod has got it from one that is ending.
func better(a, b endpoint) endpoint {
	if a.terminating && !b.terminating || a.terminating == b.terminating && !a.ready && b.ready {
		return b
	}
	return a
}

func portOf(p *discoveryv1.EndpointPort, name string, protocol v1.Protocol) (uint16, bool) {
	if p.Port == nil || *p.Port < 1 || *p.Port > 65535 {
		return 0, false
	}
	has := v1.ProtocolTCP
	if p.Protocol != nil {
		has = *p.Protocol
	}
	named := ""
	if p.Name != nil {
		named = *p.Name
	}
	return uint16(*p.Port), named == name && has == protocol
}

func endpointOf(e *discoveryv1.Endpoint, port uint16, is4 bool, node Node) (endpoint, bool) {
	if len(e.Addresses) == 0 {
		return endpoint{}, false
	}
	addr, err := netip.ParseAddr(e.Addresses[0]) // the others are not used, as by kube-proxy
	if err != nil || addr.Is4() != is4 || !forwardable(addr) {
		return endpoint{}, false
	}
	out := endpoint{
		addr:        netip.AddrPortFrom(addr, port),
		ready:       e.Conditions.Ready == nil || *e.Conditions.Ready,
		serving:     e.Conditions.Serving == nil || *e.Conditions.Serving,
		terminating: e.Conditions.Terminating != nil && *e.Conditions.Terminating,
		local:       e.NodeName != nil && *e.NodeName == node.Name,
	}
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			out.zones = append(out.zones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			out.nodes = append(out.nodes, n.Name)
		}
	}
	return out, true
}

// policies are a service port's.
type policies struct {
	internalLocal, externalLocal bool
	// external: it is reached by more than its cluster address.
	external bool
}

// categorize gives whom connections of policy Cluster and of policy Local go to,
// and whether there is anybody anywhere. Ready endpoints are used, or else those
// that end and still serve.
func categorize(all []endpoint, p policies, node Node) (cluster, local []endpoint, any bool) {
	usable := func(e endpoint) bool { return e.ready }
	ending := func(e endpoint) bool { return !e.ready && e.serving && e.terminating }
	if !p.internalLocal || p.external {
		near := hinted(all, node)
		cluster = only(all, func(e endpoint) bool { return usable(e) && near(e) })
		if len(cluster) == 0 {
			cluster = only(all, func(e endpoint) bool { return e.serving && e.terminating })
		}
	}
	if !p.internalLocal && !(p.externalLocal && p.external) {
		return cluster, nil, len(cluster) > 0
	}
	any = slices.ContainsFunc(all, func(e endpoint) bool { return usable(e) || ending(e) }) || len(cluster) > 0
	here := only(all, func(e endpoint) bool { return e.local })
	if local = only(here, usable); len(local) == 0 {
		local = only(here, ending)
	}
	return cluster, local, any
}

func only(all []endpoint, keep func(endpoint) bool) (out []endpoint) {
	for _, e := range all {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}

// hinted tells who is meant for this node: by node, or else by zone. Hints count
// if each ready endpoint has them and one has this node's.
func hinted(all []endpoint, node Node) func(endpoint) bool {
	ready := only(all, func(e endpoint) bool { return e.ready })
	for _, kind := range []struct {
		of   func(endpoint) []string
		self string
	}{
		{func(e endpoint) []string { return e.nodes }, node.Name},
		{func(e endpoint) []string { return e.zones }, node.Zone},
	} {
		meant := func(e endpoint) bool { return slices.Contains(kind.of(e), kind.self) }
		if slices.ContainsFunc(ready, meant) && !slices.ContainsFunc(ready, func(e endpoint) bool { return len(kind.of(e)) == 0 }) {
			return meant
		}
	}
	return func(endpoint) bool { return true }
}

func backends(all []endpoint) []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(all))
	for _, e := range all {
		out = append(out, e.addr)
	}
	slices.SortFunc(out, func(a, b netip.AddrPort) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Port(), b.Port()))
	})
	return out
}
