package machine_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/polltest"
)

// TestServicesAnswer: a pod reaches others by their service's address, and the
// machine by the node port, until there is nobody.
func TestServicesAnswer(t *testing.T) {
	n := newNode(t)
	n.create(web("a"))
	n.create(web("b"))
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-x", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(80)), Protocol: new(v1.ProtocolTCP)}},
	}
	for _, name := range []string{"a", "b"} {
		p := n.awaitReady(name)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{p.Status.PodIP}, NodeName: new("n1")})
	}
	// While the agent is away, so that it finds the service there.
	n.stop()
	if err := n.machine.Close(); err != nil {
		t.Fatal(err)
	}
	svc := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeNodePort, ClusterIP: "10.96.7.7", ClusterIPs: []string{"10.96.7.7"},
			Ports: []v1.ServicePort{{Port: 8000, NodePort: 30080, Protocol: v1.ProtocolTCP}},
		},
	}
	if _, err := n.api.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.api.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watched := n.api.Watched("endpointslices")
	n.start()
	<-watched

	c := web("c")
	c.Spec.Containers[0].Command[2] = "mkdir /www; until wget -qO /www/index.html http://10.96.7.7:8000/; do :; done; exec httpd -f -p 80 -h /www"
	n.create(c)
	if got := ask(t, n.awaitReady("c")); !strings.HasPrefix(got, "hello from ") {
		t.Errorf("pod c was told %q by the service", got)
	}
	const port = "http://127.0.0.1:30080/"
	if got, err := fetch(port); err != nil || !strings.HasPrefix(got, "hello from ") {
		t.Errorf("the node port answers %q, %v", got, err)
	}

	slice.Endpoints = nil
	if _, err := n.api.DiscoveryV1().EndpointSlices("default").Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	var err error
	polltest.Within(time.Minute, func() bool {
		_, err = fetch(port)
		return err != nil
	})
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("without endpoints the node port says: %v", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		n.delete(name, 0)
	}
	n.nothingLeft("uid-c")
}

func fetch(url string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(b)), err
}
