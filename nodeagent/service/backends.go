package service

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Backends are whom a proxy on this node sends requests to that are meant for a TCP
// port of a service: those that its cluster address would lead to, of both
// families. A headless service has them too, one of type ExternalName none.
func Backends(svc *v1.Service, port *v1.ServicePort, slicesOf []*discoveryv1.EndpointSlice, node Node) []netip.AddrPort {
	if svc.Spec.Type == v1.ServiceTypeExternalName || port.Protocol != "" && port.Protocol != v1.ProtocolTCP {
		return nil
	}
	p := policies{internalLocal: svc.Spec.InternalTrafficPolicy != nil && *svc.Spec.InternalTrafficPolicy == v1.ServiceInternalTrafficPolicyLocal}
	var out []netip.AddrPort
	for _, is4 := range []bool{true, false} {
		cluster, local, _ := categorize(endpoints(slicesOf, port.Name, v1.ProtocolTCP, is4, node), p, node)
		if p.internalLocal {
			cluster = local
		}
		out = append(out, backends(cluster)...)
	}
	return slices.Compact(out)
}
