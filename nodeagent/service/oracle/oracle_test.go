package oracle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/proxy"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/service"
)

const (
	nodeName = "n1"
	zone     = "z1"
	nodeIP   = "192.0.2.1"
)

// one of some.
func one[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// invent makes up a service and its slices.
func invent(r *rand.Rand) (*v1.Service, []*discoveryv1.EndpointSlice) {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	s.Spec.Type = one(r, v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort, v1.ServiceTypeLoadBalancer, v1.ServiceTypeLoadBalancer)
	s.Spec.ClusterIPs = one(r, []string{"10.96.0.1"}, []string{"10.96.0.1", "fd00:96::1"}, []string{"fd00:96::1"}, []string{"None"})
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	for _, ip := range s.Spec.ClusterIPs {
		if ip == "fd00:96::1" {
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, v1.IPv6Protocol)
		} else {
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, v1.IPv4Protocol)
		}
	}
	for i, p := range []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP}[:1+r.IntN(3)] {
		port := v1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(80 + i), Protocol: p}
		if s.Spec.Type != v1.ServiceTypeClusterIP && r.IntN(4) > 0 {
			port.NodePort = int32(30000 + i)
		}
		s.Spec.Ports = append(s.Spec.Ports, port)
	}
	s.Spec.InternalTrafficPolicy = one(r, nil, new(v1.ServiceInternalTrafficPolicyCluster), new(v1.ServiceInternalTrafficPolicyLocal))
	s.Spec.ExternalTrafficPolicy = one(r, v1.ServiceExternalTrafficPolicyCluster, v1.ServiceExternalTrafficPolicyLocal)
	s.Spec.ExternalIPs = one(r, nil, nil, []string{"203.0.113.9", "2001:db8::9"})
	if s.Spec.Type == v1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer.Ingress = one(r, nil,
			[]v1.LoadBalancerIngress{{IP: "198.51.100.1"}, {IP: "2001:db8::1"}, {Hostname: "lb.example"}},
			[]v1.LoadBalancerIngress{{IP: "198.51.100.1", IPMode: new(v1.LoadBalancerIPModeProxy)}})
		s.Spec.LoadBalancerSourceRanges = one(r, nil, []string{"203.0.113.0/24", "2001:db8:1::/48"}, []string{nodeIP + "/32"}, []string{"0.0.0.0/0", "203.0.113.0/24"})
		s.Spec.HealthCheckNodePort = 31000
	}
	if r.IntN(3) == 0 {
		s.Spec.SessionAffinity = v1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: new(int32(1 + r.IntN(100)))}}
	}
	var all []*discoveryv1.EndpointSlice
	for i := range r.IntN(5) {
		all = append(all, inventSlice(r, i))
	}
	return s, all
}

func inventSlice(r *rand.Rand, number int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", number), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: one(r, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6),
	}
	for i, p := range []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP}[:r.IntN(4)] {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(fmt.Sprint("p", i)), Port: new(int32(8080 + i)), Protocol: &p})
	}
	mood := r.IntN(4) // all ready, mostly, mostly ending, anything
	hints := r.IntN(4)
	for i := range r.IntN(4) {
		ip := fmt.Sprintf("10.0.%d.%d", number, i+1)
		if s.AddressType == discoveryv1.AddressTypeIPv6 {
			ip = fmt.Sprintf("fd00:%d::%d", number, i+1)
		}
		e := discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: one(r, new(nodeName), new("n2"), new("n3"), nil)}
		if mood > 0 && r.IntN(4) < mood {
			e.Conditions = one(r,
				discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)},
				discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(true)},
				discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false)},
				discoveryv1.EndpointConditions{Ready: new(false)},
				discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(true)}, // published though not ready
			)
		}
		if hints > 0 && r.IntN(8) > 0 {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: one(r, zone, zone, "z2")}}}
			if hints > 1 {
				e.Hints.ForNodes = []discoveryv1.ForNode{{Name: one(r, nodeName, "n2")}}
			}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// kubeProxy gives what it would do, by its own parts: what its backend of nftables
// makes of them is told again here, in words of forward.
func kubeProxy(svc *v1.Service, all []*discoveryv1.EndpointSlice) (map[forward.Front]*forward.Entry, int) {
	out := map[forward.Front]*forward.Entry{}
	ready := 0
	for _, family := range []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol} {
		services, endpoints := make(proxy.ServicePortMap), make(proxy.EndpointsMap)
		tracker := proxy.NewServiceChangeTracker(family, nil, nil)
		tracker.Update(nil, svc)
		services.Update(tracker)
		slicesOf := proxy.NewEndpointsChangeTracker(family, nodeName, nil, nil)
		for _, s := range all {
			slicesOf.EndpointSliceUpdate(s, false)
		}
		endpoints.Update(slicesOf)
		for name, port := range services {
			entries(out, name, port, endpoints[name], family)
		}
		for name := range services.HealthCheckNodePorts() {
			if family != svc.Spec.IPFamilies[0] {
				continue // the same pods again
			}
			ready += endpoints.LocalReadyEndpoints()[name]
		}
	}
	return out, ready
}

var protocols = map[v1.Protocol]forward.Protocol{v1.ProtocolTCP: forward.TCP, v1.ProtocolUDP: forward.UDP, v1.ProtocolSCTP: forward.SCTP}

func targetOf(list []proxy.Endpoint, any bool, name proxy.ServicePortName, port proxy.ServicePort) (t forward.Target) {
	for _, e := range list {
		t.Backends = append(t.Backends, netip.MustParseAddrPort(e.String()))
	}
	slices.SortFunc(t.Backends, netip.AddrPort.Compare)
	switch {
	case len(list) == 0 && any:
		t.Verdict = forward.Drop
	case len(list) == 0:
		t.Verdict = forward.Reject
	case port.SessionAffinityType() == v1.ServiceAffinityClientIP:
		t.Affinity = time.Duration(port.StickyMaxAgeSeconds()) * time.Second
		t.Group = name.NamespacedName.String() + "/" + name.Port + "/" + string(port.Protocol())
	}
	return t
}

func entries(out map[forward.Front]*forward.Entry, name proxy.ServicePortName, port proxy.ServicePort, all []proxy.Endpoint, family v1.IPFamily) {
	cluster, local, _, any := proxy.CategorizeEndpoints(all, port, nodeName, map[string]string{v1.LabelTopologyZone: zone})
	target := func(list []proxy.Endpoint) forward.Target { return targetOf(list, any, name, port) }
	front := func(ip string, number int) forward.Front {
		return forward.Front{Addr: netip.MustParseAddr(ip), Port: uint16(number), Protocol: protocols[port.Protocol()]}
	}
	var serving []netip.AddrPort // as its clean-up of conntrack has it
	if port.Protocol() == v1.ProtocolUDP {
		serving = target(slices.DeleteFunc(slices.Clone(all), func(e proxy.Endpoint) bool { return !e.IsServing() })).Backends
	}
	inside := target(cluster)
	if port.InternalPolicyLocal() {
		inside = target(local)
	}
	out[front(port.ClusterIP().String(), port.Port())] = &forward.Entry{Inside: inside, Serving: serving}
	external := func() *forward.Entry {
		e := &forward.Entry{Inside: target(cluster), Serving: serving}
		if port.ExternalPolicyLocal() {
			outside := target(local)
			outside.KeepSource = true
			e.Outside = &outside
			return e
		}
		e.Inside.Masquerade = len(cluster) > 0
		return e
	}
	for _, ip := range port.ExternalIPs() {
		out[front(ip.String(), port.Port())] = external()
	}
	for _, ip := range port.LoadBalancerVIPs() {
		e := external()
		own := false
		for _, r := range port.LoadBalancerSourceRanges() {
			e.Sources = append(e.Sources, netip.MustParsePrefix(r.String()))
			own = own || r.Contains(netip.MustParseAddr(nodeIP).AsSlice())
		}
		for _, b := range port.LoadBalancerVIPs() {
			if own {
				a := netip.MustParseAddr(b.String())
				e.Sources = append(e.Sources, netip.PrefixFrom(a, a.BitLen()))
			}
		}
		out[front(ip.String(), port.Port())] = e
	}
	if port.NodePort() != 0 {
		any := "0.0.0.0"
		if family == v1.IPv6Protocol {
			any = "::"
		}
		out[front(any, port.NodePort())] = external()
	}
}

func TestServicesComeToWhatKubeProxyMakesOfThem(t *testing.T) {
	t.Parallel()
	node := service.Node{Name: nodeName, Zone: zone, Addresses: []netip.Addr{netip.MustParseAddr(nodeIP)}}
	compare := []cmp.Option{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{}, forward.Front{})}
	fronts := 0
	for seed := range uint64(20000) {
		svc, all := invent(rand.New(rand.NewPCG(seed, 1)))
		want, ready := kubeProxy(svc, all)
		got := service.Of(svc, all, node)
		maps.DeleteFunc(got.Fronts, func(f forward.Front, _ *forward.Entry) bool { return f.Addr.IsLoopback() }) // kube-proxy has none
		fronts += len(want)
		if diff := cmp.Diff(want, got.Fronts, compare...); diff != "" {
			t.Fatalf("seed %d: service %+v\nslices %+v\nOf differs from kube-proxy (-want +got):\n%s", seed, svc.Spec, all, diff)
		}
		if got.LocalReady != ready {
			t.Fatalf("seed %d: %d ready here, kube-proxy counts %d", seed, got.LocalReady, ready)
		}
	}
	if fronts < 50000 {
		t.Errorf("%d fronts were compared: too few", fronts)
	}
}
