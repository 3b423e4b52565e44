package machine_test

import (
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent/dns"
)

// TestPodsResolveNames asks from within a pod, with the resolver of its C
// library: a service by its short name, and by its whole one.
func TestPodsResolveNames(t *testing.T) {
	at := netip.MustParseAddr("10.96.77.10")
	t.Cleanup(func() {
		if err := dns.Disclaim(at); err != nil {
			t.Error(err)
		}
	})
	n := newNode(t, at)
	for name, address := range map[string]string{"web": "10.96.77.80", "api": "10.96.77.81"} {
		s := &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       v1.ServiceSpec{ClusterIP: address, ClusterIPs: []string{address}},
		}
		if _, err := n.api.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := web("asker")
	p.Spec.DNSPolicy = v1.DNSClusterFirst
	app := &p.Spec.Containers[0]
	app.Command[2] = `mkdir /www
until nslookup web.default.svc.cluster.local && nslookup api.default.svc.cluster.local; do usleep 100000; done
{ ping -c 1 -W 1 web | head -1; ping -c 1 -W 1 api.default | head -1; nslookup 10.96.77.80; cat /etc/resolv.conf; } > /www/index.html 2>&1
exec httpd -f -p 80 -h /www`
	n.create(p)
	got := ask(t, n.awaitReady("asker"))
	for _, want := range []string{"(10.96.77.80)", "(10.96.77.81)", "web.default.svc.cluster.local", "nameserver 10.96.77.10", "search default.svc.cluster.local svc.cluster.local cluster.local"} {
		if !strings.Contains(got, want) {
			t.Errorf("the pod saw no %q:\n%s", want, got)
		}
	}
	n.delete("asker", 1)
	n.nothingLeft("uid-asker")
}
