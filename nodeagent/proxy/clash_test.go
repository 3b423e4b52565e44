package proxy

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/service"
)

// holder is a pod that has a port of the machine.
func holder(name string, port int32, at string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Ports: []v1.ContainerPort{{HostPort: port, HostIP: at, ContainerPort: 80}}}}},
	}
}

func TestPortsThatAServiceAndAPodHave(t *testing.T) {
	t.Parallel()
	node := service.Node{Name: "n1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	owners := map[forward.Front]types.NamespacedName{}
	for front, name := range map[string]string{
		"192.0.2.1:80": "balancer", "192.0.2.2:81": "elsewhere", "0.0.0.0:30000": "nodeport", "[::]:30000": "nodeport", "10.96.0.1:82": "cluster",
	} {
		at := netip.MustParseAddrPort(front)
		owners[forward.Front{Addr: at.Addr(), Port: at.Port(), Protocol: forward.TCP}] = named(name)
	}
	network := holder("network", 30000, "")
	network.Spec.HostNetwork = true
	datagrams := holder("datagrams", 80, "")
	datagrams.Spec.Containers[0].Ports[0].Protocol = v1.ProtocolUDP
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		want []string
	}{
		{"a balancer at the node's own address has the port there", holder("p", 80, ""), []string{"balancer at 192.0.2.1:80, by the pod: false"}},
		{"unless the pod names that address", holder("p", 80, "192.0.2.1"), []string{"balancer at 192.0.2.1:80, by the pod: true"}},
		{"a node port is the pod's, once for both families", holder("p", 30000, ""), []string{"nodeport at 0.0.0.0:30000, by the pod: true"}},
		{"at the address that the pod names, too", holder("p", 30000, "192.0.2.1"), []string{"nodeport at 0.0.0.0:30000, by the pod: true"}},
		{"it is the Service's if the pod listens itself", network, []string{"nodeport at 0.0.0.0:30000, by the pod: false"}},
		{"another node's address", holder("p", 81, ""), nil},
		{"an address of the cluster", holder("p", 82, ""), nil},
		{"another protocol", datagrams, nil},
		{"another port", holder("p", 83, ""), nil},
		{"no port of the machine", holder("p", 0, ""), nil},
	} {
		var got []string
		for _, c := range clashes([]*v1.Pod{tt.pod}, node, owners) {
			got = append(got, fmt.Sprintf("%s at %s, by the pod: %v", c.service.Name, netip.AddrPortFrom(c.front.Addr, c.front.Port), c.byPod))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
