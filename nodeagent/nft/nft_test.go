package nft

import (
	"net/netip"
	"testing"

	"github.com/berth-dev/berth/nodeagent/forward"
)

var vip = netip.MustParseAddr("10.96.0.1")

// to sends to some pods' port 80.
func to(pods ...int) forward.Target {
	var out forward.Target
	for _, i := range pods {
		out.Backends = append(out.Backends, netip.AddrPortFrom(podIP(i), 80))
	}
	return out
}

func tcp(a netip.Addr, port uint16) forward.Front {
	return forward.Front{Addr: a, Port: port, Protocol: forward.TCP}
}

func nodePort(port uint16) forward.Front { return tcp(netip.IPv4Unspecified(), port) }

// change is one of fronts, with all pods' addresses as hairpins.
func change(fronts map[forward.Front]*forward.Entry) forward.Change {
	c := forward.NewChange()
	c.Fronts = fronts
	for i := range 3 {
		c.Hairpin[podIP(i)], c.Hairpin[podIP6(i)] = true, true
	}
	c.Virtual[vip] = true
	return c
}

func (n *node) must(t testing.TB, c forward.Change, complete bool) {
	t.Helper()
	if err := n.Apply(c, complete); err != nil {
		t.Fatal(err)
	}
}

func TestClusterIP(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 8080): {Inside: to(1, 2)}}), true)
	seen := map[string]int{}
	for range 20 {
		server, client, err := n.pods[0].ask("10.96.0.1:8080")
		if err != nil || client != podIP(0).String() {
			t.Fatalf("from a pod: %s saw %q, %v", server, client, err)
		}
		seen[server]++
	}
	if len(seen) != 2 || seen[podIP(0).String()] > 0 {
		t.Errorf("answered by %v, want both backends", seen)
	}
	if server, client, err := n.ask("10.96.0.1:8080"); err != nil || client != "10.99.1.1" {
		t.Errorf("from the machine: %s saw %q, %v", server, client, err)
	}
	t.Log(n.run(t, "nft list ruleset"))
}
