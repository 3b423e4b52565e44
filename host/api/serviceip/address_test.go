package serviceip_test

import (
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/serviceip"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func open(t testing.TB, ranges serviceip.Ranges) *registry.Registry {
	t.Helper()
	st, err := store.Open(t.Context(), store.NewMemory(), kind.Codec{}, store.Options{Indexes: registry.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	reg := registry.New(registry.Config{Store: st, Admission: serviceip.New(st, ranges)})
	if _, err := reg.Create(t.Context(), registry.On("namespaces", "", ""), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}); err != nil {
		t.Fatal(err)
	}
	return reg
}

func service(name string, change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if change != nil {
		change(&s.Spec)
	}
	return s
}

func create(t *testing.T, reg *registry.Registry, s *corev1.Service) (*corev1.Service, error) {
	t.Helper()
	obj, err := reg.Create(t.Context(), registry.On("services", "ns", ""), s)
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Service), nil
}

func TestServicesGetAddressesAndPorts(t *testing.T) {
	t.Parallel()
	reg := open(t, serviceip.Ranges{})
	for name, c := range map[string]struct {
		change func(*corev1.ServiceSpec)
		want   func(*corev1.ServiceSpec) bool
		err    string
	}{
		"a plain service gets an address": {nil, func(s *corev1.ServiceSpec) bool {
			return serviceip.Defaults.Services[0].Contains(netip.MustParseAddr(s.ClusterIP)) && s.ClusterIPs[0] == s.ClusterIP && s.Ports[0].NodePort == 0
		}, ""},
		"a headless service gets none": {func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }, func(s *corev1.ServiceSpec) bool { return s.ClusterIP == "None" }, ""},
		"a name for something else gets none": {func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "a.b" },
			func(s *corev1.ServiceSpec) bool { return s.ClusterIP == "" }, ""},
		"a node port is given": {func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort },
			func(s *corev1.ServiceSpec) bool { return s.Ports[0].NodePort >= 30000 && s.Ports[0].NodePort <= 32767 }, ""},
		"a wanted address is kept":        {func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.7.7" }, func(s *corev1.ServiceSpec) bool { return s.ClusterIP == "10.96.7.7" }, ""},
		"an address elsewhere is refused": {func(s *corev1.ServiceSpec) { s.ClusterIP = "192.168.1.1" }, nil, "is not in the valid range"},
		"a port elsewhere is refused": {func(s *corev1.ServiceSpec) { s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 80 }, nil,
			"The range of valid ports is 30000-32767"},
		"ports of one number get one node port": {func(s *corev1.ServiceSpec) { s.Type, s.Ports = corev1.ServiceTypeNodePort, dnsPorts(0, 0) },
			func(s *corev1.ServiceSpec) bool {
				return s.Ports[0].NodePort >= 30000 && s.Ports[0].NodePort == s.Ports[1].NodePort
			}, ""},
		"that which one of them asks for": {func(s *corev1.ServiceSpec) { s.Type, s.Ports = corev1.ServiceTypeNodePort, dnsPorts(0, 30053) },
			func(s *corev1.ServiceSpec) bool { return s.Ports[0].NodePort == 30053 && s.Ports[1].NodePort == 30053 }, ""},
		"two where they ask for two": {func(s *corev1.ServiceSpec) { s.Type, s.Ports = corev1.ServiceTypeNodePort, dnsPorts(30054, 30055) },
			func(s *corev1.ServiceSpec) bool { return s.Ports[0].NodePort == 30054 && s.Ports[1].NodePort == 30055 }, ""},
		"one node port for ports of two numbers is refused": {func(s *corev1.ServiceSpec) {
			s.Type, s.Ports = corev1.ServiceTypeNodePort, dnsPorts(30056, 30056)
			s.Ports[1].Port = 54
		}, nil, "provided port is already allocated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := create(t, reg, service("s"+strings.ReplaceAll(strings.ToLower(name), " ", "-"), c.change))
			if c.err != "" {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("create = %v, want an invalid %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !c.want(&s.Spec) {
				t.Errorf("spec = %+v", s.Spec)
			}
		})
	}
}

func TestAnAddressBelongsToOneService(t *testing.T) {
	t.Parallel()
	reg := open(t, serviceip.Ranges{Services: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/28")}})
	var wait sync.WaitGroup
	made := make(chan string, 32)
	for i := range 32 {
		wait.Go(func() {
			if s, err := create(t, reg, service("s"+string(rune('a'+i%26))+strings.Repeat("x", i/26), nil)); err == nil {
				made <- s.Spec.ClusterIP
			}
		})
	}
	wait.Wait()
	close(made)
	seen := map[string]bool{}
	for ip := range made {
		if seen[ip] {
			t.Errorf("%s was given twice", ip)
		}
		seen[ip] = true
	}
	if len(seen) != 13 { // 16 without network, broadcast and the API's own
		t.Errorf("%d addresses were given, want 13", len(seen))
	}
	one, err := create(t, reg, service("taken", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.5" }))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "already allocated") {
		t.Errorf("create with an address of another service = %v, %v", one, err)
	}
}

func TestAnUpdateKeepsTheAddress(t *testing.T) {
	t.Parallel()
	reg := open(t, serviceip.Ranges{})
	s, err := create(t, reg, service("s", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }))
	if err != nil {
		t.Fatal(err)
	}
	again := service("s", func(s *corev1.ServiceSpec) {
		s.Type = corev1.ServiceTypeNodePort
		s.Selector = map[string]string{"a": "b"}
	})
	obj, _, err := reg.Update(t.Context(), registry.On("services", "ns", "s"), again)
	if err != nil {
		t.Fatal(err)
	}
	got := obj.(*corev1.Service)
	if got.Spec.ClusterIP != s.Spec.ClusterIP || got.Spec.Ports[0].NodePort != s.Spec.Ports[0].NodePort {
		t.Errorf("after the update: %s %d, want %s %d", got.Spec.ClusterIP, got.Spec.Ports[0].NodePort, s.Spec.ClusterIP, s.Spec.Ports[0].NodePort)
	}
}

// TestAnAddressDoesNotChange: neither by a client that knows clusterIP alone.
func TestAnAddressDoesNotChange(t *testing.T) {
	t.Parallel()
	const other, outside = "10.96.7.7", "10.0.0.12"
	for was, spec := range map[string]corev1.ServiceSpec{"with an address": {}, "headless": {ClusterIP: corev1.ClusterIPNone}} {
		for asked, change := range map[string]func(*corev1.ServiceSpec){
			"another":                func(s *corev1.ServiceSpec) { s.ClusterIP = other },
			"one of no range":        func(s *corev1.ServiceSpec) { s.ClusterIP = outside },
			"another, in a manifest": func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = other, nil },
			"another, in both":       func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = other, []string{other} },
		} {
			t.Run(was+" asked for "+asked, func(t *testing.T) {
				t.Parallel()
				reg := open(t, serviceip.Ranges{})
				s, err := create(t, reg, service("s", func(s *corev1.ServiceSpec) {
					s.ClusterIP, s.Selector = spec.ClusterIP, map[string]string{"a": "b"}
				}))
				if err != nil {
					t.Fatal(err)
				}
				next := s.DeepCopy()
				change(&next.Spec)
				if got, _, err := reg.Update(t.Context(), registry.On("services", "ns", "s"), next); err == nil || !strings.Contains(err.Error(), "may not change once set") {
					t.Errorf("the update = %v, %v, want a refusal", got, err)
				}
			})
		}
	}
}

// TestAServiceGivesItsAddressUp where its new type has none.
func TestAServiceGivesItsAddressUp(t *testing.T) {
	t.Parallel()
	reg := open(t, serviceip.Ranges{})
	s, err := create(t, reg, service("s", nil))
	if err != nil {
		t.Fatal(err)
	}
	s = s.DeepCopy()
	s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIP = corev1.ServiceTypeExternalName, "example.com", ""
	obj, _, err := reg.Update(t.Context(), registry.On("services", "ns", "s"), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := obj.(*corev1.Service).Spec; got.ClusterIP != "" || len(got.ClusterIPs) > 0 {
		t.Errorf("addresses %q, %q, want none", got.ClusterIP, got.ClusterIPs)
	}
}

// dnsPorts are 53 of TCP and of UDP, with their node ports.
func dnsPorts(tcp, udp int32) []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "tcp", Port: 53, Protocol: corev1.ProtocolTCP, NodePort: tcp}, {Name: "udp", Port: 53, Protocol: corev1.ProtocolUDP, NodePort: udp},
	}
}

// TestNodePortsOfAnUpdate: as Kubernetes' patchAllocatedValues and updateNodePorts have
// them.
func TestNodePortsOfAnUpdate(t *testing.T) {
	t.Parallel()
	const some = -1 // another than any before
	balancer := func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer }
	for name, c := range map[string]struct {
		change func(*corev1.ServiceSpec) // from ports 53 of TCP, at 30001, and of UDP, at 30002
		want   []int32
		err    string
	}{
		"left out they are kept":                {func(s *corev1.ServiceSpec) { s.Ports = dnsPorts(0, 0) }, []int32{30001, 30002}, ""},
		"by name, whatever the port":            {func(s *corev1.ServiceSpec) { s.Ports = dnsPorts(0, 0); s.Ports[0].Port = 5353 }, []int32{30001, 30002}, ""},
		"another name gets another":             {func(s *corev1.ServiceSpec) { s.Ports = dnsPorts(0, 0); s.Ports[0].Name = "dns" }, []int32{some, 30002}, ""},
		"what another port now has is not kept": {func(s *corev1.ServiceSpec) { s.Ports = dnsPorts(0, 30001); s.Ports[1].Port = 54 }, []int32{some, 30001}, ""},
		"they may come to share one":            {func(s *corev1.ServiceSpec) { s.Ports = dnsPorts(30003, 30003); s.Ports[1].Port = 54 }, []int32{30003, 30003}, ""},
		"a balancer keeps them":                 {func(s *corev1.ServiceSpec) { balancer(s); s.Ports = dnsPorts(0, 0) }, []int32{30001, 30002}, ""},
		"one that wants none gives them back": {func(s *corev1.ServiceSpec) {
			balancer(s)
			s.AllocateLoadBalancerNodePorts, s.Ports = new(false), dnsPorts(0, 0)
		}, []int32{0, 0}, ""},
		"also where they are named": {func(s *corev1.ServiceSpec) { balancer(s); s.AllocateLoadBalancerNodePorts = new(false) }, []int32{0, 0}, ""},
		"but not another that is asked for": {func(s *corev1.ServiceSpec) {
			balancer(s)
			s.AllocateLoadBalancerNodePorts, s.Ports = new(false), dnsPorts(30004, 0)
		}, []int32{30004, 0}, ""},
		"that of health checks is none of them": {func(s *corev1.ServiceSpec) {
			balancer(s)
			s.ExternalTrafficPolicy, s.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30001
		}, nil, "provided port is already allocated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := open(t, serviceip.Ranges{})
			s, err := create(t, reg, service("s", func(s *corev1.ServiceSpec) { s.Type, s.Ports = corev1.ServiceTypeNodePort, dnsPorts(30001, 30002) }))
			if err != nil {
				t.Fatal(err)
			}
			s = s.DeepCopy()
			c.change(&s.Spec)
			obj, _, err := reg.Update(t.Context(), registry.On("services", "ns", "s"), s)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("update = %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range obj.(*corev1.Service).Spec.Ports {
				fresh := p.NodePort >= 30000 && p.NodePort != 30001 && p.NodePort != 30002
				if c.want[i] == some && !fresh || c.want[i] != some && p.NodePort != c.want[i] {
					t.Errorf("%s has node port %d, want %d", p.Name, p.NodePort, c.want[i])
				}
			}
		})
	}
}

func TestANodePortThatIsGivenUpIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	reg := open(t, serviceip.Ranges{})
	const port = 30777
	node := func(s *corev1.ServiceSpec) { s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, port }
	s, err := create(t, reg, service("first", node))
	if err != nil {
		t.Fatal(err)
	}
	s = s.DeepCopy()
	s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
	if _, _, err := reg.Update(t.Context(), registry.On("services", "ns", "first"), s); err != nil {
		t.Fatal(err)
	}
	if _, err := create(t, reg, service("second", node)); err != nil {
		t.Errorf("a port that was given up: %v", err)
	}
	if _, err := create(t, reg, service("third", node)); !apierrors.IsInvalid(err) {
		t.Errorf("a port that another has: %v", err)
	}
}
