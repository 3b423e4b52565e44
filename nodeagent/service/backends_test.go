package service

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestAProxySendsToWhomTheClusterAddressLeads(t *testing.T) {
	t.Parallel()
	six := slice("fd00::1 n1")
	for _, c := range []struct {
		name   string
		change func(*v1.Service)
		slices []*discoveryv1.EndpointSlice
		want   string
	}{
		{"who is ready", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.2 n2", "10.0.0.1 n1", "10.0.0.3 n1 unready", "10.0.0.4 n1 ending")}, "[10.0.0.1:8080 10.0.0.2:8080]"},
		{"who ends, where nobody else is", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.3 n1 unready", "10.0.0.4 n1 ending")}, "[10.0.0.4:8080]"},
		{"both families", nil, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1"), six}, "[10.0.0.1:8080 [fd00::1]:8080]"},
		{"this node's alone", func(s *v1.Service) { s.Spec.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyLocal) }, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1", "10.0.0.2 n2")}, "[10.0.0.1:8080]"},
		{"a headless service's", func(s *v1.Service) { s.Spec.ClusterIP = v1.ClusterIPNone }, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")}, "[10.0.0.1:8080]"},
		{"not the machine itself", nil, []*discoveryv1.EndpointSlice{slice("127.0.0.1 n1", "169.254.169.254 n1", "0.0.0.0 n1")}, "[]"},
		{"no other name", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeExternalName }, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")}, "[]"},
		{"no UDP", func(s *v1.Service) { s.Spec.Ports[0].Protocol = v1.ProtocolUDP }, []*discoveryv1.EndpointSlice{slice("10.0.0.1 n1")}, "[]"},
	} {
		svc := web(c.change)
		if got := fmt.Sprint(Backends(svc, &svc.Spec.Ports[0], c.slices, here)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
