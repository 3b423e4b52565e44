package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/forward"
)

var here = Node{Name: "n1", Zone: "z1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}

// web is a service of one port; change makes it another.
func web(change func(*v1.Service)) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeClusterIP, ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"},
			Ports: []v1.ServicePort{{Name: "http", Port: 80, Protocol: v1.ProtocolTCP}},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// slice has endpoints in words: address, node, then flags.
func slice(lines ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(v1.ProtocolTCP)}},
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if strings.Contains(words[0], ":") {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		e := discoveryv1.Endpoint{Addresses: []string{words[0]}, NodeName: &words[1], Hints: &discoveryv1.EndpointHints{}}
		for _, w := range words[2:] {
			switch kind, name, _ := strings.Cut(w, "="); kind {
			case "unready":
				e.Conditions.Ready, e.Conditions.Serving = new(false), new(false)
			case "ending":
				e.Conditions.Ready, e.Conditions.Serving, e.Conditions.Terminating = new(false), new(true), new(true)
			case "ended":
				e.Conditions.Ready, e.Conditions.Serving, e.Conditions.Terminating = new(false), new(false), new(true)
			case "zone":
				e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: name})
			case "node":
				e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: name})
			default:
				panic(w)
			}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// told gives elements as lines.
func told(e Elements) []string {
	var out []string
	for f, entry := range e.Fronts {
		name := map[forward.Protocol]string{forward.TCP: "tcp", forward.UDP: "udp", forward.SCTP: "sctp"}[f.Protocol]
		line := fmt.Sprintf("%s %s: %s", name, netip.AddrPortFrom(f.Addr, f.Port), tell(&entry.Inside))
		if entry.Outside != nil {
			line += "; outside: " + tell(entry.Outside)
		}
		if len(entry.Sources) > 0 {
			line += fmt.Sprint("; only ", entry.Sources)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func tell(t *forward.Target) string {
	out := []string{[]string{"", "reject", "drop"}[t.Verdict]}
	for _, b := range t.Backends {
		out = append(out, b.String())
	}
	for word, yes := range map[string]bool{"masquerade": t.Masquerade, "keep": t.KeepSource} {
		if yes {
			out = append(out, word)
		}
	}
	if t.Affinity > 0 {
		out = append(out, t.Affinity.String(), t.Group)
	}
	return strings.TrimSpace(strings.Join(out, " "))
}

func local(s *v1.Service) {
	s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
}

func internalLocal(s *v1.Service) {
	s.Spec.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyLocal)
}

func nodePort(s *v1.Service) {
	s.Spec.Type, s.Spec.Ports[0].NodePort = v1.ServiceTypeNodePort, 30000
}

func balanced(s *v1.Service) {
	s.Spec.Type = v1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "198.51.100.1"}}
}

func all(changes ...func(*v1.Service)) func(*v1.Service) {
	return func(s *v1.Service) {
		for _, c := range changes {
			c(s)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	two := []string{"10.0.0.1 n1", "10.0.0.2 n2"}
	tests := []struct {
		name   string
		change func(*v1.Service)
		slices []*discoveryv1.EndpointSlice
		want   []string
	}{
		{"a cluster address", nil, []*discoveryv1.EndpointSlice{slice(two...)},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080 10.0.0.2:8080"}},
		{"endpoints of several slices, each once", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.2 n2"), slice("10.0.0.1 n1", "10.0.0.2 n2")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080 10.0.0.2:8080"}},
		{"an address that a pod got from one that ends", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1 ending"), slice("10.0.0.1 n1"), slice("10.0.0.1 n1 ending")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080"}},
		{"nobody", nil, nil, []string{"tcp 10.96.0.1:80: reject"}},
		{"nobody ready", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1 unready", "10.0.0.2 n2 ended")}, []string{"tcp 10.96.0.1:80: reject"}},
		{"only some who end, and serve", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1 ending", "10.0.0.2 n2 unready")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080"}},
		{"who ends gets nothing while others are ready", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1 ending", "10.0.0.2 n2")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.2:8080"}},
		{"headless", func(s *v1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} }, []*discoveryv1.EndpointSlice{slice(two...)}, nil},
		{"a name elsewhere", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeExternalName }, nil, nil},
		{"no address yet", func(s *v1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil }, nil, nil},
		{"ports and protocols", func(s *v1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "http", Port: 53, Protocol: v1.ProtocolUDP}, v1.ServicePort{Name: "s", Port: 9, Protocol: v1.ProtocolSCTP})
		}, []*discoveryv1.EndpointSlice{slice(two...)},
			[]string{"sctp 10.96.0.1:9: reject", "tcp 10.96.0.1:80: 10.0.0.1:8080 10.0.0.2:8080", "udp 10.96.0.1:53: reject"}},
		{"two families", func(s *v1.Service) { s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00::1") }, []*discoveryv1.EndpointSlice{slice(two...), slice("fd00:1::1 n1")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080 10.0.0.2:8080", "tcp [fd00::1]:80: [fd00:1::1]:8080"}},
		{"affinity", func(s *v1.Service) {
			s.Spec.SessionAffinity = v1.ServiceAffinityClientIP
			s.Spec.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: new(int32(60))}}
		}, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")}, []string{"tcp 10.96.0.1:80: 10.0.0.1:8080 1m0s default/web/http/TCP"}},
		{"affinity of the default time", func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP },
			[]*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")}, []string{"tcp 10.96.0.1:80: 10.0.0.1:8080 3h0m0s default/web/http/TCP"}},
		{"a node port", nodePort, []*discoveryv1.EndpointSlice{slice(two...)},
			[]string{"tcp 0.0.0.0:30000: 10.0.0.1:8080 10.0.0.2:8080 masquerade", "tcp 10.96.0.1:80: 10.0.0.1:8080 10.0.0.2:8080", "tcp 127.0.0.1:30000: 10.0.0.1:8080"}},
		{"a node port of policy Local", all(nodePort, local), []*discoveryv1.EndpointSlice{slice(two...)},
			[]string{"tcp 0.0.0.0:30000: 10.0.0.1:8080 10.0.0.2:8080; outside: 10.0.0.1:8080 keep", "tcp 10.96.0.1:80: 10.0.0.1:8080 10.0.0.2:8080", "tcp 127.0.0.1:30000: 10.0.0.1:8080"}},
		{"policy Local, and nobody here", all(nodePort, local), []*discoveryv1.EndpointSlice{slice("10.0.0.2 n2")},
			[]string{"tcp 0.0.0.0:30000: 10.0.0.2:8080; outside: drop keep", "tcp 10.96.0.1:80: 10.0.0.2:8080", "tcp 127.0.0.1:30000: reject"}},
		{"policy Local, and nobody anywhere", all(nodePort, local), nil,
			[]string{"tcp 0.0.0.0:30000: reject; outside: reject keep", "tcp 10.96.0.1:80: reject", "tcp 127.0.0.1:30000: reject"}},
		{"policy Local, and who is here ends", all(nodePort, local), []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1 ending", "10.0.0.2 n2")},
			[]string{"tcp 0.0.0.0:30000: 10.0.0.2:8080; outside: 10.0.0.1:8080 keep", "tcp 10.96.0.1:80: 10.0.0.2:8080", "tcp 127.0.0.1:30000: reject"}},
		{"internal policy Local", internalLocal, []*discoveryv1.EndpointSlice{slice(two...)}, []string{"tcp 10.96.0.1:80: 10.0.0.1:8080"}},
		{"internal policy Local, and nobody here", internalLocal, []*discoveryv1.EndpointSlice{slice("10.0.0.2 n2")}, []string{"tcp 10.96.0.1:80: drop"}},
		{"internal policy Local with a node port", all(internalLocal, nodePort), []*discoveryv1.EndpointSlice{slice("10.0.0.2 n2")},
			[]string{"tcp 0.0.0.0:30000: 10.0.0.2:8080 masquerade", "tcp 10.96.0.1:80: drop", "tcp 127.0.0.1:30000: reject"}},
		{"a load balancer", balanced, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080", "tcp 198.51.100.1:80: 10.0.0.1:8080 masquerade"}},
		{"a load balancer that sends to the nodes itself", all(balanced, func(s *v1.Service) { s.Status.LoadBalancer.Ingress[0].IPMode = new(v1.LoadBalancerIPModeProxy) }),
			[]*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")}, []string{"tcp 10.96.0.1:80: 10.0.0.1:8080"}},
		{"source ranges", all(balanced, func(s *v1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{" 203.0.113.0/24 ", "fd00::/8", "nonsense"}
		}),
			[]*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080", "tcp 198.51.100.1:80: 10.0.0.1:8080 masquerade; only [203.0.113.0/24]"}},
		{"source ranges with this node", all(balanced, func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} }),
			[]*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080", "tcp 198.51.100.1:80: 10.0.0.1:8080 masquerade; only [192.0.2.0/24 198.51.100.1/32]"}},
		{"source ranges with everybody", all(balanced, func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24", "0.0.0.0/0"} }),
			[]*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080", "tcp 198.51.100.1:80: 10.0.0.1:8080 masquerade"}},
		{"external addresses", func(s *v1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.9", "fd00::9", "127.0.0.1", "nonsense"} }, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")},
			[]string{"tcp 10.96.0.1:80: 10.0.0.1:8080", "tcp 203.0.113.9:80: 10.0.0.1:8080 masquerade"}},
		{"hints by zone", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1 zone=z1", "10.0.0.2 n2 zone=z2")}, []string{"tcp 10.96.0.1:80: 10.0.0.1:8080"}},
		{"hints by node win", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n9 zone=z1 node=n9", "10.0.0.2 n2 zone=z2 node=n1")}, []string{"tcp 10.96.0.1:80: 10.0.0.2:8080"}},
		{"hints that one lacks", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1 zone=z1", "10.0.0.2 n2")}, []string{"tcp 10.96.0.1:80: 10.0.0.1:8080 10.0.0.2:8080"}},
		{"hints for others alone", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1 zone=z3", "10.0.0.2 n2 zone=z2")}, []string{"tcp 10.96.0.1:80: 10.0.0.1:8080 10.0.0.2:8080"}},
		{"ports that are none", func(s *v1.Service) {
			s.Spec.Ports = []v1.ServicePort{{Name: "http", Port: 0}, {Name: "http", Port: 70000}, {Name: "http", Port: 81, NodePort: -1}, {Name: "http", Port: 82, Protocol: "ICMP"}}
		}, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")}, []string{"tcp 10.96.0.1:81: 10.0.0.1:8080"}},
		{"endpoints that are none", nil, []*discoveryv1.EndpointSlice{
			slice("0.0.0.0 n1", "127.0.0.1 n1", "169.254.169.254 n1", "224.0.0.1 n1", "nonsense n1", "10.0.0.300 n1"),
			{AddressType: discoveryv1.AddressTypeFQDN, Ports: slice().Ports, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"example.com"}}}},
			{AddressType: discoveryv1.AddressTypeIPv4, Ports: slice().Ports, Endpoints: []discoveryv1.Endpoint{{}, {Addresses: []string{"fd00::1"}}}},
			{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{}, {Name: new("http"), Port: new(int32(0))}}, Endpoints: slice("10.0.0.1 n1").Endpoints},
		}, []string{"tcp 10.96.0.1:80: reject"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, told(Of(web(tt.change), tt.slices, here))); diff != "" {
			t.Errorf("%s: Of differs (-want +got):\n%s", tt.name, diff)
		}
	}
}

func name(n string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: n}
}

// changed gives a change as lines; those that go end by "gone".
func changed(c forward.Change) []string {
	var out []string
	for f, e := range c.Fronts {
		if e == nil {
			out = append(out, f.Addr.String()+" gone")
			continue
		}
		out = append(out, f.Addr.String()+" "+tell(&e.Inside))
	}
	for word, list := range map[string]map[netip.Addr]bool{"virtual": c.Virtual, "hairpin": c.Hairpin} {
		for a, there := range list {
			out = append(out, fmt.Sprint(word, " ", a, " ", there))
		}
	}
	slices.Sort(out)
	return out
}

func TestBookTellsWhatChanged(t *testing.T) {
	t.Parallel()
	b := NewBook(here)
	old := func(s *v1.Service) { s.CreationTimestamp = metav1.NewTime(time.Unix(1, 0)) }
	young := func(s *v1.Service) { s.CreationTimestamp = metav1.NewTime(time.Unix(2, 0)) }
	one, two := []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")}, []*discoveryv1.EndpointSlice{slice("10.0.0.2 n2")}
	steps := []struct {
		name string
		do   func()
		want []string
	}{
		{"new", func() { b.Put(name("young"), web(young), one) },
			[]string{"10.96.0.1 10.0.0.1:8080", "hairpin 10.0.0.1 true", "virtual 10.96.0.1 true"}},
		{"as it was", func() { b.Put(name("young"), web(young), one) }, nil},
		{"there and back", func() { b.Put(name("young"), web(young), two); b.Put(name("young"), web(young), one) }, nil},
		{"the same address for an older one", func() { b.Put(name("old"), web(old), two) }, []string{"10.96.0.1 10.0.0.2:8080"}},
		{"the younger changes, to no effect", func() { b.Put(name("young"), web(young), nil) }, []string{"hairpin 10.0.0.1 false"}},
		{"the older goes", func() { b.Put(name("old"), nil, nil) }, []string{"10.96.0.1 reject"}},
		{"both are gone", func() { b.Put(name("young"), nil, nil); b.Put(name("never"), nil, nil) },
			[]string{"10.96.0.1 gone", "virtual 10.96.0.1 false"}},
	}
	for _, s := range steps {
		s.do()
		if diff := cmp.Diff(s.want, changed(b.Change())); diff != "" {
			t.Errorf("%s: Change differs (-want +got):\n%s", s.name, diff)
		}
	}
}

// TestUDPFlowsStayWithWhoServes: wherever it is, and whether or not new ones go there.
func TestUDPFlowsStayWithWhoServes(t *testing.T) {
	t.Parallel()
	udp := func(s *v1.Service) {
		balanced(s)
		local(s)
		internalLocal(s)
		s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "http", Port: 53, NodePort: 30053, Protocol: v1.ProtocolUDP})
	}
	with := func(lines ...string) []*discoveryv1.EndpointSlice {
		over := slice(lines...)
		over.Ports[0].Protocol = new(v1.ProtocolUDP)
		return []*discoveryv1.EndpointSlice{slice(lines...), over}
	}
	b := NewBook(here)
	for _, step := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"all serve", []string{"10.0.0.1 n1", "10.0.0.2 n1", "10.0.0.3 n2"}, "[10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:8080]"},
		{"one ends", []string{"10.0.0.1 n1", "10.0.0.2 n1 ending", "10.0.0.3 n2"}, "[10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:8080]"},
		{"it serves no more", []string{"10.0.0.1 n1", "10.0.0.2 n1 ended", "10.0.0.3 n2"}, "[10.0.0.1:8080 10.0.0.3:8080]"},
		{"another is not ready", []string{"10.0.0.1 n1", "10.0.0.3 n2 unready"}, "[10.0.0.1:8080]"},
	} {
		b.Put(name("web"), web(udp), with(step.lines...))
		fronts := 0
		for front, e := range b.Change().Fronts {
			want := "[]"
			if front.Protocol == forward.UDP {
				fronts++
				want = step.want
			}
			if got := fmt.Sprint(e.Serving); got != want {
				t.Errorf("%s: of %v serve %s, want %s", step.name, front, got, want)
			}
		}
		if fronts != 4 {
			t.Errorf("%s: %d fronts of UDP have changed, want 4", step.name, fronts)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	b := NewBook(here)
	asks := all(balanced, local, func(s *v1.Service) { s.Spec.HealthCheckNodePort = 31000 })
	b.Put(name("web"), web(asks), []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1", "10.0.0.2 n2", "10.0.0.3 n1 ending"), slice("10.0.0.1 n1")})
	b.Put(name("xeb"), web(asks), nil) // who claims the port, too, does not get it
	b.Put(name("cluster"), web(balanced), nil)
	if diff := cmp.Diff(map[uint16]Health{31000: {name("web"), 1}}, b.Health()); diff != "" {
		t.Errorf("Health differs (-want +got):\n%s", diff)
	}
}

// FuzzOf: no object makes it fail, nor gives what the kernel could not have.
func FuzzOf(f *testing.F) {
	for _, s := range []*v1.Service{web(nil), web(all(nodePort, local)), web(balanced)} {
		svc, err := s.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		sl, err := slice("10.0.0.1 n1", "10.0.0.2 n2 zone=z1").Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(svc, sl)
	}
	f.Fuzz(func(t *testing.T, svc, sl []byte) {
		var s v1.Service
		var e discoveryv1.EndpointSlice
		if s.Unmarshal(svc) != nil || e.Unmarshal(sl) != nil {
			return
		}
		for front, entry := range Of(&s, []*discoveryv1.EndpointSlice{&e}, here).Fronts {
			targets := []*forward.Target{&entry.Inside}
			if entry.Outside != nil {
				targets = append(targets, entry.Outside)
			}
			for _, target := range targets {
				if target.Verdict == forward.To && len(target.Backends) == 0 {
					t.Errorf("%v goes to nobody", front)
				}
				for _, b := range target.Backends {
					if !b.IsValid() || b.Port() == 0 || b.Addr().Is4() != front.Addr.Is4() {
						t.Errorf("%v goes to %v", front, b)
					}
				}
			}
		}
	})
}

func BenchmarkOf(b *testing.B) {
	s, e := web(nil), []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1", "10.0.0.2 n2", "10.0.0.3 n3")}
	book := NewBook(here)
	for b.Loop() {
		book.Put(name("web"), s, e)
		book.Change()
	}
}
