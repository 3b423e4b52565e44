package balancer_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/network/balancer"
)

func TestPoolsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.10-192.0.2.12":        "[192.0.2.10-192.0.2.12]",
		"192.0.2.0/29":                 "[192.0.2.1-192.0.2.6]",
		"192.0.2.8/31":                 "[192.0.2.8-192.0.2.9]",
		"192.0.2.9":                    "[192.0.2.9]",
		"2001:db8::/126, 192.0.2.0/30": "[2001:db8::-2001:db8::3 192.0.2.1-192.0.2.2]",
		"":                             "[]",
		"none":                         "[]",
		"nodes":                        "[]",
	} {
		c, err := balancer.Parse(text)
		if got := fmt.Sprint(c.Pools); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
		if c.Nodes != (text == "nodes") || c.On() != (text != "" && text != "none") {
			t.Errorf("%q: %+v", text, c)
		}
	}
	for text, want := range map[string]string{
		"node":                             "want nodes, none, or pools",
		"192.0.2.0/29,":                    "want nodes, none, or pools",
		"192.0.2.1/29":                     "want 192.0.2.0/29",
		"192.0.2.9-192.0.2.3":              "want FIRST-LAST",
		"192.0.2.9-2001:db8::":             "want FIRST-LAST",
		"127.0.0.1":                        "this machine's own",
		"169.254.0.0/16":                   "of one link",
		"224.0.0.0-224.0.0.9":              "for many",
		"0.0.0.0-9.0.0.0":                  "no address",
		"::ffff:192.0.2.1":                 "want nodes",
		"fe80::1%eth0":                     "want nodes",
		"192.0.2.0/24,192.0.2.9":           "overlap",
		"192.0.2.9,192.0.2.0/24":           "overlap",
		"192.0.2.1-192.0.2.5,192.0.2.5/32": "overlap",
	} {
		if _, err := balancer.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"nodes", "192.0.2.0/29,2001:db8::1-2001:db8::9", "::/0", "0.0.0.0/0", "255.255.255.255/32", "-,/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := balancer.Parse(text)
		for _, p := range c.Pools {
			if err != nil || !p.First.IsValid() || p.Last.Less(p.First) {
				t.Errorf("%q: %v, %v", text, c, err)
			}
		}
		if len(c.Pools) > 0 { // whatever was read gives an address at once
			s := service("a", 0, 80)
			s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
			if r := c.Decide([]balancer.Service{{Service: s}}, nil); len(r[nameOf("a")].Addresses) == 0 {
				t.Errorf("%q: %v", text, r)
			}
		}
	})
}

// service is the nth by age.
func service(name string, nth int, ports ...int32) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(1_700_000_000, 0)},
		Spec:       v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer, IPFamilies: []v1.IPFamily{v1.IPv4Protocol}},
	}
	s.CreationTimestamp.Time = s.CreationTimestamp.Add(time.Duration(nth) * time.Second)
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Port: p})
	}
	return s
}

func nameOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func node(name string, addresses ...string) balancer.Node {
	n := balancer.Node{Name: name}
	for _, a := range addresses {
		n.Addresses = append(n.Addresses, netip.MustParseAddr(a))
	}
	return n
}

func has(s *v1.Service, addresses ...string) *v1.Service {
	for _, a := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, v1.LoadBalancerIngress{IP: a})
	}
	return s
}

func pools(t testing.TB, text string) balancer.Config {
	t.Helper()
	c, err := balancer.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// decide gives results as NAME: ADDRESSES NODE! MISSING, in order.
func decide(c balancer.Config, nodes []balancer.Node, all ...*v1.Service) []string {
	var list []balancer.Service
	for _, s := range all {
		near := map[string]bool{}
		for name := range s.Annotations {
			near[name] = true
		}
		list = append(list, balancer.Service{Service: s, Near: near})
	}
	var out []string
	for name, r := range c.Decide(list, nodes) {
		line := name.Name + ": " + strings.Join(r.Addresses, " ")
		if r.Missing != "" {
			line += "! " + r.Missing
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] && !(strings.HasSuffix(want[i], "...") && strings.HasPrefix(got[i], strings.TrimSuffix(want[i], "..."))) {
			t.Errorf("got  %q\nwant %q", got[i], want[i])
		}
	}
}

func TestPoolsGiveEachServiceAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	c, nodes := pools(t, "192.0.2.10-192.0.2.11,2001:db8::/127"), []balancer.Node{node("n1", "192.0.2.1")}
	dual := service("d", 3)
	dual.Spec.IPFamilies = append(dual.Spec.IPFamilies, v1.IPv6Protocol)
	expect(t, decide(c, nodes, service("a", 1), service("b", 0), dual),
		"a: 192.0.2.11", "b: 192.0.2.10", "d: 2001:db8::! no address of IPv4 is free in the pools 192.0.2.10-192.0.2.11,2001:db8::-2001:db8::1")
	dual.Spec.IPFamilyPolicy = ptr.To(v1.IPFamilyPolicyPreferDualStack)
	expect(t, decide(c, nodes, service("a", 1), service("b", 0), dual), "a: 192.0.2.11", "b: 192.0.2.10", "d: 2001:db8::")

	// What they have they keep, also from older ones that ask.
	asks := service("b", 0)
	asks.Spec.LoadBalancerIP = "192.0.2.10"
	expect(t, decide(c, nodes, has(service("a", 1), "192.0.2.10"), service("b", 0)), "a: 192.0.2.10", "b: 192.0.2.11")
	expect(t, decide(c, nodes, has(service("a", 1), "192.0.2.10"), asks), "a: 192.0.2.10", "b: ! its loadBalancerIP 192.0.2.10 is Service ns/a's")
	// The older one of two that have the same has it.
	expect(t, decide(c, nodes, has(service("a", 1), "192.0.2.10"), has(service("b", 0), "192.0.2.10")), "a: 192.0.2.11", "b: 192.0.2.10")
	// What is in no pool any more is given up.
	expect(t, decide(c, nodes, has(service("a", 0), "198.51.100.1", "192.0.2.11")), "a: 192.0.2.11")
	asks.Spec.LoadBalancerIP = "198.51.100.1"
	expect(t, decide(c, nodes, asks), "b: ! its loadBalancerIP 198.51.100.1 is in none of the pools ...")
	asks.Spec.LoadBalancerIP = "192.0.2.11"
	expect(t, decide(c, nodes, has(asks, "192.0.2.10")), "b: 192.0.2.11")

	expect(t, decide(pools(t, "2001:db8::1"), nodes, service("a", 0)), "a: ! none of the pools 2001:db8::1 has addresses of IPv4")
	expect(t, decide(c, nil, service("a", 0)), "a: 192.0.2.10! no node can answer: ...")
}

func TestAddressesMoveOnlyFromNodesThatGo(t *testing.T) {
	t.Parallel()
	c := pools(t, "10.0.0.0/16")
	var nodes []balancer.Node
	for i := range 10 {
		nodes = append(nodes, node(fmt.Sprintf("n%d", i), "192.0.2.1"))
	}
	var all []balancer.Service
	for i := range 1000 {
		all = append(all, balancer.Service{Service: service(fmt.Sprintf("s%d", i), i)})
	}
	before, count := c.Decide(all, nodes), map[string]int{}
	for _, r := range before {
		count[r.Node]++
	}
	for _, n := range nodes {
		if count[n.Name] < 60 || count[n.Name] > 150 {
			t.Errorf("node %s announces %d of 1,000", n.Name, count[n.Name])
		}
	}
	for name, r := range c.Decide(all, nodes[1:]) {
		if was := before[name].Node; r.Node != was && was != "n0" {
			t.Errorf("%s moved from %s to %s when n0 went", name, was, r.Node)
		}
	}
}

func TestOnlyNodesWithEndpointsAnswerWhereTheTrafficPolicyIsLocal(t *testing.T) {
	t.Parallel()
	nodes := []balancer.Node{node("n1", "192.0.2.1"), node("n2", "192.0.2.2", "2001:db8::2"), node("n3", "192.0.2.3")}
	near := service("a", 0, 80)
	near.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
	none := near.DeepCopy()
	near.Annotations = map[string]string{"n2": ""}
	at := balancer.Config{Nodes: true}
	expect(t, decide(at, nodes, near), "a: 192.0.2.2")
	expect(t, decide(at, nodes, none), "a: ! externalTrafficPolicy is Local, and no node ...")
	c := pools(t, "198.51.100.1")
	if r := c.Decide([]balancer.Service{{Service: near, Near: map[string]bool{"n2": true}}}, nodes)[nameOf("a")]; r.Node != "n2" {
		t.Errorf("%+v, want it announced by n2", r)
	}
	expect(t, decide(c, nodes, none), "a: 198.51.100.1! externalTrafficPolicy is Local, and no node ...")
}

func TestNodesAnswerAtTheirOwnAddresses(t *testing.T) {
	t.Parallel()
	c := balancer.Config{Nodes: true, First: 30000, Last: 32767, Reserved: map[balancer.Port]string{{Number: 22, Protocol: v1.ProtocolTCP}: "SSH"}}
	nodes := []balancer.Node{node("n2", "192.0.2.2"), node("n1", "192.0.2.1", "2001:db8::1")}
	dual := service("d", 3, 443)
	dual.Spec.IPFamilies = append(dual.Spec.IPFamilies, v1.IPv6Protocol)
	udp := service("u", 4, 80)
	udp.Spec.Ports[0].Protocol = v1.ProtocolUDP
	expect(t, decide(c, nodes, service("a", 1, 80), service("b", 0, 80, 8080), dual, udp, service("s", 5, 22), service("n", 6, 31000), service("z", 7, 8080)),
		"a: ! port 80/TCP of the nodes is taken by Service ns/b; ...", "b: 192.0.2.1 192.0.2.2", "d: 192.0.2.1 192.0.2.2 2001:db8::1",
		"n: ! port 31000/TCP is one that nodes keep: 30000 to 32767 are node ports...", "s: ! port 22/TCP is one that nodes keep: SSH...",
		"u: 192.0.2.1 192.0.2.2", "z: ! port 8080/TCP of the nodes is taken by Service ns/b; ...")
	expect(t, decide(c, nil, service("a", 1, 80)), "a: ! no node can answer: ...")

	nodes[0].Keeps = map[balancer.Port]string{{Number: 9250, Protocol: v1.ProtocolTCP}: "the node agent", {Number: 8080, Protocol: v1.ProtocolTCP}: "Ingresses are answered there"}
	nodes[1].Keeps = map[balancer.Port]string{{Number: 9250, Protocol: v1.ProtocolTCP}: "the node agent"}
	udp.Spec.Ports[0].Port = 9250
	expect(t, decide(c, nodes, service("a", 1, 9250), udp, service("b", 2, 80, 8080)),
		"a: ! port 9250/TCP is one that nodes keep: the node agent...", "b: 192.0.2.1", "u: 192.0.2.1 192.0.2.2")
	wants := service("a", 1, 80)
	wants.Spec.LoadBalancerIP = "198.51.100.9"
	if r := c.Decide([]balancer.Service{{Service: wants}}, nodes)[nameOf("a")]; r.Ignored != "198.51.100.9" {
		t.Errorf("its loadBalancerIP is not said to be ignored: %+v", r)
	}
	wants.Spec.LoadBalancerIP = "192.0.2.1"
	if r := c.Decide([]balancer.Service{{Service: wants}}, nodes)[nameOf("a")]; r.Ignored != "" {
		t.Errorf("its loadBalancerIP, which it has, is said to be ignored: %+v", r)
	}

	var many []balancer.Node
	for i := range 100 {
		many = append(many, node(fmt.Sprint("n", i), fmt.Sprint("192.0.2.", i)))
	}
	one, other := c.Decide([]balancer.Service{{Service: service("a", 0, 80)}}, many)[nameOf("a")], c.Decide([]balancer.Service{{Service: service("b", 0, 80)}}, many)[nameOf("b")]
	if len(one.Addresses) != 16 || slices.Equal(one.Addresses, other.Addresses) {
		t.Errorf("%v and %v, want 16 of 100 each, and others", one.Addresses, other.Addresses)
	}
}

func TestOurs(t *testing.T) {
	t.Parallel()
	s := service("a", 0)
	if !balancer.Ours(s) {
		t.Error("a Service that names no class is not ours")
	}
	if s.Spec.LoadBalancerClass = ptr.To(balancer.Class); !balancer.Ours(s) {
		t.Error("a Service of our class is not ours")
	}
	if s.Spec.LoadBalancerClass = ptr.To("example.com/other"); balancer.Ours(s) {
		t.Error("a Service of another class is ours")
	}
	s = service("a", 0)
	if s.Spec.Type = v1.ServiceTypeNodePort; balancer.Ours(s) {
		t.Error("a Service of type NodePort is ours")
	}
}
