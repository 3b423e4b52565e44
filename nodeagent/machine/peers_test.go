package machine

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name, cidr string, addresses ...string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{PodCIDR: cidr}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a})
	}
	return n
}

func TestPeers(t *testing.T) {
	t.Parallel()
	two := node("two", "10.0.2.0/24", "192.0.2.2", "2001:db8::2")
	two.Spec.PodCIDRs = []string{"10.0.2.0/24", "fd00:2::/64"}
	tests := []struct {
		name  string
		nodes []*v1.Node
		want  string
	}{
		{"this node is none", []*v1.Node{node("self", "10.0.1.0/24", "192.0.2.1")}, "[]"},
		{"another is", []*v1.Node{node("one", "10.0.1.0/24", "192.0.2.1")}, "[{10.0.1.0/24 192.0.2.1}]"},
		{"each family by its address", []*v1.Node{two}, "[{10.0.2.0/24 192.0.2.2} {fd00:2::/64 2001:db8::2}]"},
		{"no range yet", []*v1.Node{node("one", "", "192.0.2.1")}, "[]"},
		{"no address yet", []*v1.Node{node("one", "10.0.1.0/24")}, "[]"},
		{"nonsense", []*v1.Node{node("one", "10.0.1.0/99", "not an address")}, "[]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(Peers(tt.nodes, "self")); got != tt.want {
			t.Errorf("%s: Peers = %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	self := node("self", "10.0.1.0/24", "192.0.2.1", "not an address", "2001:db8::1")
	self.Status.Addresses = append(self.Status.Addresses, v1.NodeAddress{Type: v1.NodeExternalIP, Address: "203.0.113.1"})
	if got := fmt.Sprint(addresses([]*v1.Node{node("one", "", "192.0.2.9"), self}, "self")); got != "[192.0.2.1 2001:db8::1]" {
		t.Errorf("addresses = %s", got)
	}
}
