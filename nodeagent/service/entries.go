package service

import (
	"net/netip"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// defaultAffinity is the API's, for services of clients that name none.
const defaultAffinity = 3 * time.Hour

// Elements are what one service comes to on a node.
type Elements struct {
	Fronts map[forward.Front]*forward.Entry
	// Virtual addresses: the service's own.
	Virtual []netip.Addr
	// Hairpin are its endpoints on this node.
	Hairpin []netip.Addr
	// HealthPort, if not 0, tells load balancers of the LocalReady endpoints here.
	HealthPort uint16
	LocalReady int
}

// Of works out a service's elements. What of it makes no sense is left out.
func Of(svc *v1.Service, slicesOf []*discoveryv1.EndpointSlice, node Node) Elements {
	out := Elements{Fronts: map[forward.Front]*forward.Entry{}}
	if svc.Spec.Type == v1.ServiceTypeExternalName || svc.Spec.ClusterIP == v1.ClusterIPNone {
		return out
	}
	for _, ip := range ClusterIPs(svc) {
		out.Virtual = append(out.Virtual, ip)
		for i := range svc.Spec.Ports {
			out.port(svc, &svc.Spec.Ports[i], ip, slicesOf, node)
		}
	}
	out.health(svc, slicesOf, node)
	return out
}

// ClusterIPs are a service's own addresses.
func ClusterIPs(svc *v1.Service) []netip.Addr {
	texts := svc.Spec.ClusterIPs
	if len(texts) == 0 {
		texts = []string{svc.Spec.ClusterIP}
	}
	return addresses(texts, nil)
}

// addresses reads those that are of ip's family, if it is given.
func addresses(texts []string, ip *netip.Addr) (out []netip.Addr) {
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if err == nil && forwardable(a) && (ip == nil || a.Is4() == ip.Is4()) {
			out = append(out, a)
		}
	}
	return out
}

// forwardable: no address that means this machine, this link or many. The API
// refuses these, and who got past it is not to have the machine's own.
func forwardable(a netip.Addr) bool {
	return a.Zone() == "" && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.IsLinkLocalUnicast()
}

// port adds the fronts of one port of one family.
func (out *Elements) port(svc *v1.Service, p *v1.ServicePort, ip netip.Addr, slicesOf []*discoveryv1.EndpointSlice, node Node) {
	protocol, known := forward.ProtocolOf(string(p.Protocol))
	if !known || p.Port < 1 || p.Port > 65535 {
		return
	}
	balancers, external := loadBalancers(svc, ip), addresses(svc.Spec.ExternalIPs, &ip)
	nodePort := nodePortOf(p)
	how := policies{
		internalLocal: keepsInside(svc), external: nodePort != 0 || len(balancers)+len(external) > 0,
		externalLocal: svc.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal && exposed(svc),
	}
	all := endpoints(slicesOf, p.Name, orTCP(p.Protocol), ip.Is4(), node)
	cluster, local, any := categorize(all, how, node)
	for _, e := range append(cluster[:len(cluster):len(cluster)], local...) {
		if e.local {
			out.Hairpin = append(out.Hairpin, e.addr.Addr())
		}
	}
	target := target{any: any, affinity: affinity(svc)}
	if target.affinity > 0 {
		target.group = strings.Join([]string{svc.Namespace, svc.Name, p.Name, string(orTCP(p.Protocol))}, "/")
	}
	serving := keepFlows(protocol, all)
	inside := target.to(cluster)
	if how.internalLocal {
		inside = target.to(local)
	}
	out.Fronts[forward.Front{Addr: ip, Port: uint16(p.Port), Protocol: protocol}] = &forward.Entry{Inside: inside, Serving: serving}

	entry := func() *forward.Entry {
		e := &forward.Entry{Inside: target.to(cluster), Serving: serving}
		if how.externalLocal {
			outside := target.to(local)
			outside.KeepSource = true
			e.Outside = &outside
		} else {
			e.Inside.Masquerade = e.Inside.Verdict == forward.To
		}
		return e
	}
	for _, a := range external {
		out.Fronts[forward.Front{Addr: a, Port: uint16(p.Port), Protocol: protocol}] = entry()
	}
	sources := sourceRanges(svc, ip, balancers, node)
	for _, a := range balancers {
		e := entry()
		e.Sources = sources
		out.Fronts[forward.Front{Addr: a, Port: uint16(p.Port), Protocol: protocol}] = e
	}
	if nodePort == 0 {
		return
	}
	out.Fronts[forward.Front{Addr: anyOwn(ip), Port: nodePort, Protocol: protocol}] = entry()
	if own, has := loopback(ip); has {
		out.Fronts[forward.Front{Addr: own, Port: nodePort, Protocol: protocol}] = &forward.Entry{Inside: target.here(cluster), Serving: serving}
	}
}

// loopback is where node ports of ip's family lead to endpoints of the machine alone:
// what others answer comes by its links, and the kernel takes nothing for the loopback
// there. Of IPv6 it takes it nowhere.
func loopback(ip netip.Addr) (own netip.Addr, has bool) {
	return netip.AddrFrom4([4]byte{127, 0, 0, 1}), ip.Is4()
}

// keepFlows are the endpoints that keep the flows that they have, of UDP: the other
// protocols' connections end by themselves.
func keepFlows(protocol forward.Protocol, all []endpoint) []netip.AddrPort {
	if protocol != forward.UDP {
		return nil
	}
	return backends(only(all, func(e endpoint) bool { return e.serving }))
}

func anyOwn(ip netip.Addr) netip.Addr {
	if ip.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func orTCP(p v1.Protocol) v1.Protocol {
	if p == "" {
		return v1.ProtocolTCP
	}
	return p
}

// nodePortOf is a port's on all nodes, 0 where it has none.
func nodePortOf(p *v1.ServicePort) uint16 {
	if p.NodePort > 0 && p.NodePort <= 65535 {
		return uint16(p.NodePort)
	}
	return 0
}

// keepsInside: connections from inside stay on their node.
func keepsInside(svc *v1.Service) bool {
	return svc.Spec.InternalTrafficPolicy != nil && *svc.Spec.InternalTrafficPolicy == v1.ServiceInternalTrafficPolicyLocal
}

// exposed: policies for traffic from outside mean something.
func exposed(svc *v1.Service) bool {
	return svc.Spec.Type == v1.ServiceTypeNodePort || svc.Spec.Type == v1.ServiceTypeLoadBalancer ||
		svc.Spec.Type == v1.ServiceTypeClusterIP && len(svc.Spec.ExternalIPs) > 0
}

func affinity(svc *v1.Service) time.Duration {
	if svc.Spec.SessionAffinity != v1.ServiceAffinityClientIP {
		return 0
	}
	c := svc.Spec.SessionAffinityConfig
	if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil || *c.ClientIP.TimeoutSeconds < 1 {
		return defaultAffinity
	}
	return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
}

// target makes Targets of a port.
type target struct {
	any      bool
	affinity time.Duration
	group    string
}

func (t target) to(list []endpoint) forward.Target {
	switch {
	case len(list) > 0:
		return forward.Target{Backends: backends(list), Affinity: t.affinity, Group: t.group}
	case t.any: // but elsewhere
		return forward.Target{Verdict: forward.Drop}
	}
	return forward.Target{Verdict: forward.Reject}
}

// here is to those of this node: nobody else answers.
func (t target) here(list []endpoint) forward.Target {
	t.any = false
	return t.to(only(list, func(e endpoint) bool { return e.local }))
}

// LoadBalancers are the addresses whose packets come here as they are.
func LoadBalancers(svc *v1.Service) []netip.Addr {
	return addresses(balancerTexts(svc), nil)
}

// loadBalancers are those of ip's family.
func loadBalancers(svc *v1.Service, ip netip.Addr) []netip.Addr {
	return addresses(balancerTexts(svc), &ip)
}

func balancerTexts(svc *v1.Service) (texts []string) {
	if svc.Spec.Type != v1.ServiceTypeLoadBalancer {
		return nil
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IP != "" && (in.IPMode == nil || *in.IPMode == v1.LoadBalancerIPModeVIP) {
			texts = append(texts, in.IP)
		}
	}
	return texts
}

// sourceRanges are who may use the load balancers' addresses; none is everybody.
func sourceRanges(svc *v1.Service, ip netip.Addr, balancers []netip.Addr, node Node) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range svc.Spec.LoadBalancerSourceRanges {
		r, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || r.Addr().Is4() != ip.Is4() {
			continue
		}
		if r.Bits() == 0 {
			return nil
		}
		out = append(out, r.Masked())
	}
	for _, r := range out {
		for _, own := range node.Addresses {
			if !r.Contains(own) {
				continue
			}
			// This machine may, and has the balancer's address itself perhaps.
			for _, b := range balancers {
				out = append(out, netip.PrefixFrom(b, b.BitLen()))
			}
			return out
		}
	}
	return out
}

// health counts the ready endpoints here, of all ports: those of the service's
// first family, as the others are the same pods.
func (out *Elements) health(svc *v1.Service, slicesOf []*discoveryv1.EndpointSlice, node Node) {
	if svc.Spec.Type != v1.ServiceTypeLoadBalancer || svc.Spec.ExternalTrafficPolicy != v1.ServiceExternalTrafficPolicyLocal ||
		svc.Spec.HealthCheckNodePort < 1 || svc.Spec.HealthCheckNodePort > 65535 {
		return
	}
	ips := ClusterIPs(svc)
	if len(ips) == 0 {
		return
	}
	out.HealthPort = uint16(svc.Spec.HealthCheckNodePort)
	here := map[netip.Addr]bool{}
	for _, s := range slicesOf {
		for i := range s.Ports {
			if s.Ports[i].Port == nil {
				continue
			}
			for j := range s.Endpoints {
				e, ok := endpointOf(&s.Endpoints[j], 0, ips[0].Is4(), node)
				if ok && e.local && e.ready {
					here[e.addr.Addr()] = true
				}
			}
		}
	}
	out.LocalReady = len(here)
}
