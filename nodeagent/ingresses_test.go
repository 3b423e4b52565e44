package nodeagent_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent"
	"github.com/berth-dev/berth/nodeagent/service"
)

// TestAgentAnswersForIngresses: a Service's endpoint on a loopback is none, so that
// 503 is what an Ingress of it gives. The Node tells of it, and no more when the
// agent is started without.
func TestAgentAnswersForIngresses(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, fakes: newFakes(t.TempDir(), nil)}
	at := ""
	m.change = func(c *nodeagent.Config) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at, c.Ingress.HTTP = l.Addr().String(), l
	}
	answer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "mine alone") }))
	t.Cleanup(answer.Close)
	m.expose(netip.MustParseAddrPort(answer.Listener.Addr().String()))
	m.start()
	port := netip.MustParseAddrPort(at).Port()
	if says, want := m.awaitIngressServing(true), fmt.Sprintf(service.IngressPorts, port, 0); says != want {
		t.Errorf("the node says %q, want %q", says, want)
	}
	m.awaitAnswer("http://"+at, http.StatusServiceUnavailable)
	m.stop()

	m.change = nil
	m.start()
	t.Cleanup(func() { m.stop() })
	m.awaitIngressServing(false)
}

// expose makes a Service whose endpoint is at an address, and an Ingress of it.
func (m *machine) expose(at netip.AddrPort) {
	m.t.Helper()
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "berth"}, Spec: networkingv1.IngressClassSpec{Controller: "berth.dev/ingress"}}
	i := &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
		IngressClassName: new("berth"),
		DefaultBackend:   &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}
	s := &v1.Service{ObjectMeta: meta, Spec: v1.ServiceSpec{ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}, Ports: []v1.ServicePort{{Port: 80}}}}
	e := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
		Ports: []discoveryv1.EndpointPort{{Port: new(int32(at.Port()))}},
	}
	_, err := m.api.NetworkingV1().IngressClasses().Create(m.t.Context(), class, metav1.CreateOptions{})
	if err == nil {
		_, err = m.api.NetworkingV1().Ingresses("default").Create(m.t.Context(), i, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = m.api.CoreV1().Services("default").Create(m.t.Context(), s, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = m.api.DiscoveryV1().EndpointSlices("default").Create(m.t.Context(), e, metav1.CreateOptions{})
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) awaitIngressServing(want bool) (says string) {
	m.t.Helper()
	var last *v1.Node
	if !polltest.Within(time.Minute, func() bool {
		n, err := m.api.CoreV1().Nodes().Get(m.t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			return false
		}
		last = n
		i := slices.IndexFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == "IngressServing" })
		if i >= 0 {
			says = n.Status.Conditions[i].Message
		}
		return i >= 0 == want
	}) {
		m.t.Fatalf("the node says %+v, want it to tell of Ingresses: %v", last, want)
	}
	return says
}

func (m *machine) awaitAnswer(url string, want int) {
	m.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	last := 0
	if !polltest.Within(time.Minute, func() bool {
		resp, err := client.Get(url)
		if err == nil {
			last = resp.StatusCode
			resp.Body.Close()
		}
		return last == want
	}) {
		m.t.Fatalf("%s answers %d, want %d", url, last, want)
	}
}
