package nodeagent

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestAddressesOfANode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		outside func(string) string
		want    string
	}{
		{"that others reach by its own", nil, ""},
		{"that is on no other network", func(string) string { return "" }, ""},
		{"that has but one", func(like string) string { return like }, ""},
		{"whose own only its pods reach", func(string) string { return "192.0.2.7" }, "192.0.2.7"},
	} {
		a := &Agent{address: "10.85.0.1", cfg: Config{NodeName: "n1", Outside: c.outside}}
		by := map[v1.NodeAddressType]string{}
		for _, at := range a.addresses() {
			by[at.Type] = at.Address
		}
		if by[v1.NodeInternalIP] != "10.85.0.1" || by[v1.NodeExternalIP] != c.want || by[v1.NodeHostName] != "n1" {
			t.Errorf("a node %s has %v", c.name, by)
		}
	}
}
