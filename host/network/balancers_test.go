package network_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/network"
	"github.com/berth-dev/berth/host/network/balancer"
	"github.com/berth-dev/berth/host/store"
	nodeservice "github.com/berth-dev/berth/nodeagent/service"
)

// events are what Services were told, as NAME REASON.
type events []string

func (e *events) tell(about store.Object, _, reason, _ string) {
	*e = append(*e, about.GetName()+" "+reason)
}

func balanced(t *testing.T, flag string, told *events) network.Config {
	t.Helper()
	c, err := balancer.Parse(flag)
	if err != nil {
		t.Fatal(err)
	}
	return network.Config{Balancers: c, Event: told.tell}
}

func balancedService(name string) *v1.Service {
	s := service(name)
	s.Spec.Type = v1.ServiceTypeLoadBalancer
	return s
}

// at is where a Service is answered, and who announces it.
func (w *world) at(name, want string) {
	w.Helper()
	s := get[*v1.Service](w, "services", "ns", name)
	var got []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		got = append(got, in.IP)
		if ptr.Deref(in.IPMode, "") != v1.LoadBalancerIPModeVIP {
			w.Errorf("%s has %+v", name, in)
		}
	}
	if by := s.Annotations["network.berth.dev/announced-by"]; by != "" {
		got = append(got, "by "+by)
	}
	if strings.Join(got, " ") != want {
		w.Errorf("%s is answered at %q, want %q", name, got, want)
	}
}

func (w *world) modify(resource, ns, name string, change func(store.Object)) {
	w.Helper()
	if _, err := w.reg.Modify(w.Context(), registry.On(resource, ns, name), func(old store.Object) (store.Object, error) {
		next := old.DeepCopyObject().(store.Object)
		change(next)
		return next, nil
	}); err != nil {
		w.Fatal(err)
	}
}

func TestServicesGetAddressesOfAPool(t *testing.T) {
	t.Parallel()
	var told events
	playWith(t, balanced(t, "198.51.100.1-198.51.100.2", &told), nil, func(w *world) {
		other := balancedService("other")
		other.Spec.LoadBalancerClass = ptr.To("example.com/other")
		w.create("services", "ns", other)
		w.create("services", "ns", service("plain"))
		w.create("services", "ns", balancedService("a"))
		w.at("a", "198.51.100.1") // and nobody announces it yet
		w.put(node("n1", "192.0.2.1", v1.NodeReady))
		w.at("a", "198.51.100.1 by n1")
		w.at("other", "")
		w.at("plain", "")
		w.create("services", "ns", balancedService("b"))
		w.create("services", "ns", balancedService("c"))
		w.at("b", "198.51.100.2 by n1")
		w.at("c", "by n1")
		// Where its node goes, another announces it.
		w.put(node("n2", "192.0.2.2", v1.NodeReady))
		w.put(node("n1", "192.0.2.1"))
		w.at("a", "198.51.100.1 by n2")
		w.modify("nodes", "", "n2", func(o store.Object) { o.SetLabels(map[string]string{v1.LabelNodeExcludeBalancers: ""}) })
		w.at("a", "198.51.100.1")
		w.put(node("n1", "192.0.2.1", v1.NodeReady))
		w.at("a", "198.51.100.1 by n1")
		// What one gives up another gets.
		w.modify("services", "ns", "a", func(o store.Object) { o.(*v1.Service).Spec.Type = v1.ServiceTypeClusterIP })
		w.at("a", "")
		w.at("c", "198.51.100.1 by n1")
		w.remove("services", "ns", "b")
		w.modify("services", "ns", "a", func(o store.Object) {
			spec := &o.(*v1.Service).Spec
			spec.Type, spec.AllocateLoadBalancerNodePorts, spec.ExternalTrafficPolicy = v1.ServiceTypeLoadBalancer, ptr.To(true), v1.ServiceExternalTrafficPolicyCluster
		})
		w.at("a", "198.51.100.2 by n1")
	})
	for _, want := range []string{"a SyncLoadBalancerFailed", "a EnsuredLoadBalancer", "b EnsuredLoadBalancer", "c SyncLoadBalancerFailed", "c EnsuredLoadBalancer"} {
		if !slices.Contains(told, want) {
			t.Errorf("told %v, not %q", told, want)
		}
	}
}

// A host that starts knows all that have addresses before it gives one to another.
func TestServicesKeepAddressesOverARestart(t *testing.T) {
	t.Parallel()
	var told events
	playWith(t, balanced(t, "198.51.100.1-198.51.100.9", &told), func(w *world) {
		w.put(node("n1", "192.0.2.1", v1.NodeReady))
		w.create("services", "ns", balancedService("a"))
		w.create("services", "ns", balancedService("z"))
		for name, ip := range map[string]string{"a": "198.51.100.3", "z": "198.51.100.1"} {
			if _, err := w.reg.Modify(w.Context(), registry.On("services", "ns", name).Sub("status"), func(old store.Object) (store.Object, error) {
				next := old.(*v1.Service).DeepCopy()
				next.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: ip, IPMode: ptr.To(v1.LoadBalancerIPModeVIP)}}
				return next, nil
			}); err != nil {
				w.Fatal(err)
			}
		}
		w.create("services", "ns", balancedService("m"))
	}, func(w *world) {
		w.at("a", "198.51.100.3 by n1")
		w.at("m", "198.51.100.2 by n1")
		w.at("z", "198.51.100.1 by n1")
	})
	if !slices.Equal(told, []string{"m EnsuredLoadBalancer"}) {
		t.Errorf("told %v", told)
	}
}

func TestServicesAreAnsweredAtNodes(t *testing.T) {
	t.Parallel()
	var told events
	playWith(t, balanced(t, "nodes", &told), nil, func(w *world) {
		w.put(node("n1", "192.0.2.1", v1.NodeReady))
		w.put(node("n2", "192.0.2.2", v1.NodeReady))
		w.put(node("lo", "127.0.0.1", v1.NodeReady))
		w.create("services", "ns", balancedService("a"))
		w.at("a", "192.0.2.1 192.0.2.2")
		w.create("services", "ns", balancedService("b"))
		w.at("b", "")
		w.remove("services", "ns", "a")
		w.at("b", "192.0.2.1 192.0.2.2")

		near := balancedService("near")
		near.Spec.ExternalTrafficPolicy, near.Spec.Ports[0].Port = v1.ServiceExternalTrafficPolicyLocal, 81
		w.create("services", "ns", near)
		w.at("near", "")
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "near-1", Labels: map[string]string{discoveryv1.LabelServiceName: "near"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.0.0.1"}, NodeName: ptr.To("n1"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
				{Addresses: []string{"10.0.0.2"}, NodeName: ptr.To("n2"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
			},
		}
		w.create(slicesOf, "ns", slice)
		w.at("near", "192.0.2.2")
		w.modify(slicesOf, "ns", "near-1", func(o store.Object) {
			o.(*discoveryv1.EndpointSlice).Endpoints[0].Conditions.Ready = ptr.To(true)
		})
		w.at("near", "192.0.2.1 192.0.2.2")
	})
	if want := []string{"a EnsuredLoadBalancer", "b SyncLoadBalancerFailed", "b EnsuredLoadBalancer", "near SyncLoadBalancerFailed", "near EnsuredLoadBalancer"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestNodesKeepTheirAgentsPorts: whatever ports their agents were told to have.
func TestNodesKeepTheirAgentsPorts(t *testing.T) {
	t.Parallel()
	var told events
	playWith(t, balanced(t, "nodes", &told), nil, func(w *world) {
		for name, ports := range map[string][3]int{"n1": {9250, 8080, 8443}, "n2": {10250, 80, 443}} {
			n := node(name, "192.0.2."+name[1:], v1.NodeReady, "IngressServing")
			n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(ports[0])
			n.Status.Conditions[1].Message = fmt.Sprintf(nodeservice.IngressPorts, ports[1], ports[2])
			w.put(n)
		}
		w.put(node("n3", "192.0.2.3", v1.NodeReady, "IngressServing")) // which does not say where
		for port, want := range map[int32]string{
			9250: "192.0.2.2 192.0.2.3", 10250: "192.0.2.1 192.0.2.3", 8080: "192.0.2.2 192.0.2.3", 8443: "192.0.2.2 192.0.2.3", 80: "192.0.2.1", 443: "192.0.2.1",
		} {
			s := balancedService(fmt.Sprint("at-", port))
			s.Spec.Ports[0].Port = port
			w.create("services", "ns", s)
			w.at(s.Name, want)
		}
		w.remove("services", "ns", "at-80")
		n := node("n1", "192.0.2.1", v1.NodeReady) // another agent
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = 443
		w.put(n)
		w.at("at-9250", "192.0.2.1 192.0.2.2 192.0.2.3")
		w.at("at-443", "")
	})
}

func TestALoadBalancerIPWithoutPoolsIsToldToBeIgnored(t *testing.T) {
	t.Parallel()
	var told events
	playWith(t, balanced(t, "nodes", &told), nil, func(w *world) {
		w.put(node("n1", "192.0.2.1", v1.NodeReady))
		s := balancedService("a")
		s.Spec.LoadBalancerIP = "198.51.100.9"
		w.create("services", "ns", s)
		w.at("a", "192.0.2.1")
		w.put(node("n2", "192.0.2.2", v1.NodeReady))
		w.at("a", "192.0.2.1 192.0.2.2")
	})
	if want := []string{"a LoadBalancerIPIgnored", "a EnsuredLoadBalancer"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
