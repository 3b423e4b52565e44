package host

import (
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/network/balancer"
)

// TestServicesDoNotGetPortsThatAllNodesKeep: what comes to these is not a Service's,
// by their own protocol alone.
func TestServicesDoNotGetPortsThatAllNodesKeep(t *testing.T) {
	t.Parallel()
	h := &Host{Config: Config{LoadBalancers: "nodes"}}
	c, err := h.loadBalancers(netip.MustParseAddrPort("192.0.2.1:7443"))
	if err != nil {
		t.Fatal(err)
	}
	nodes := []balancer.Node{{Name: "n1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
	for _, tt := range []struct {
		port     int32
		protocol v1.Protocol
		why      string
	}{
		{22, v1.ProtocolTCP, "SSH"}, {7443, v1.ProtocolTCP, "the API"}, {8472, v1.ProtocolUDP, "the tunnel between nodes"}, {30000, v1.ProtocolTCP, "are node ports"},
		{8472, v1.ProtocolTCP, ""}, {22, v1.ProtocolUDP, ""},
	} {
		s := &v1.Service{}
		s.Spec.IPFamilies, s.Spec.Ports = []v1.IPFamily{v1.IPv4Protocol}, []v1.ServicePort{{Port: tt.port, Protocol: tt.protocol}}
		got := c.Decide([]balancer.Service{{Service: s}}, nodes)[types.NamespacedName{}]
		if (got.Missing == "") != (tt.why == "") || !strings.Contains(got.Missing, tt.why) {
			t.Errorf("%d/%s: %+v, want %q missing", tt.port, tt.protocol, got, tt.why)
		}
	}
}
