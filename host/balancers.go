package host

import (
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/api/serviceip"
	"github.com/berth-dev/berth/host/network/balancer"
)

// loadBalancers reads where Services of type LoadBalancer get addresses from.
func (h *Host) loadBalancers(api netip.AddrPort) (balancer.Config, error) {
	c, err := balancer.Parse(h.LoadBalancers)
	if err != nil {
		return c, fmt.Errorf("load balancers: %w", err)
	}
	for _, p := range c.Pools {
		for _, r := range append(h.services[:len(h.services):len(h.services)], h.podRange) {
			if r.IsValid() && p.Overlaps(r) {
				return c, fmt.Errorf("load balancers: pool %s has addresses of %s, which is the cluster's own", p, r)
			}
		}
	}
	c.First, c.Last = serviceip.Defaults.First, serviceip.Defaults.Last
	c.Reserved = map[balancer.Port]string{
		{Number: 22, Protocol: v1.ProtocolTCP}:                "SSH",
		{Number: int32(api.Port()), Protocol: v1.ProtocolTCP}: "the API",
		{Number: 8472, Protocol: v1.ProtocolUDP}:              "the tunnel between nodes",
	}
	return c, nil
}
