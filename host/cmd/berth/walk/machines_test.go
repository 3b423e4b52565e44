package walk_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent/service"
)

// TestMachines walks through a cluster of a host and two machines, each with
// its own network and mounts, its own containerd and its own agent.
func TestMachines(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		missing(t, "containers need root")
	}
	for _, tool := range []string{"containerd", "containerd-shim-runc-v2", "runc", "ctr"} {
		program(t, tool)
	}
	for bridge, address := range map[string]string{lan: "10.99.0.1/24", beyond: "10.99.1.1/24"} {
		mustRun(t, "ip", "link", "add", bridge, "type", "bridge")
		mustRun(t, "ip", "addr", "add", address, "dev", bridge)
		mustRun(t, "ip", "link", "set", bridge, "up")
	}
	mustRun(t, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1") // the host's machine is the router between them
	c := newCluster(t, "host", "--listen", "10.99.0.1:6443", "--node-monitor-grace-period", "4s", "--load-balancers", balancerAddress)
	n1, n2, n3 := c.newMachine(t, "n1", lan, "10.99.0.2"), c.newMachine(t, "n2", lan, "10.99.0.3"), c.newMachine(t, "n3", beyond, "10.99.1.2")
	token, image := strings.TrimSpace(c.must(t, binary, "token", "create")), webImage(t)
	n1.join(t, "--token", token, "--import-image", image)
	n2.join(t, "--token", token, "--import-image", image)
	n3.join(t, "--token", token, "--import-image", image)
	c.run(t, "pods on two machines reach each other", func(t *testing.T) { c.testAcross(t, n1, n2) })
	c.run(t, "a roll-over on one machine loses no request, whatever its pods do about it", func(t *testing.T) {
		c.testRollOver(t, []*machine{n1}, []*machine{n1})
	})
	for n := range 2 {
		c.run(t, fmt.Sprintf("a roll-over on %d machines loses no request", n+2), func(t *testing.T) {
			c.testRollOver(t, []*machine{n1, n2, n3}, []*machine{n1, n2, n3}[:n+2])
		})
	}
	c.run(t, "connections are made while an agent is killed and comes back", func(t *testing.T) { c.testAgentIsKilledUnderLoad(t, n1, n2) })
	c.run(t, "pods reach one behind a router, by its name", func(t *testing.T) { c.testBehindARouter(t, n1, n3) })
	c.run(t, "a load balancer's address moves from a node that dies", func(t *testing.T) { c.testLoadBalancer(t, n1, n2) })
	c.run(t, "the pods of a dead agent move, and it takes the old ones down when it is back", func(t *testing.T) {
		c.testDeadAgent(t, n1, n2)
	})
}

// lan is the network between the machines, beyond another one; the host is at the
// first address of each.
const (
	lan    = "machines"
	beyond = "beyond"
	// balancerAddress is of lan, and of no machine.
	balancerAddress = "10.99.0.100"
)

// testBehindARouter: n3 is on another network, whose router knows no pods.
func (c *cluster) testBehindARouter(t *testing.T, n1, n3 *machine) {
	near, far := webOn(t, "near", "n1"), webOn(t, "far", "n3")
	far.Labels = map[string]string{"far": "yes"}
	c.submit(t, near)
	c.submit(t, far)
	headless := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "far"},
		Spec:       v1.ServiceSpec{ClusterIP: v1.ClusterIPNone, Selector: far.Labels, Ports: []v1.ServicePort{{Name: "http", Port: 8080}}},
	}
	if _, err := c.client.CoreV1().Services("default").Create(t.Context(), headless, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	near, far = c.awaitPod(t, "near", "is ready", isReady), c.awaitPod(t, "far", "is ready", isReady)
	const name = "far.default.svc.cluster.local."
	var found []netip.Addr
	eventually(t, name+" resolves", func() bool {
		found = n1.resolves(t, near, name)
		return len(found) > 0
	})
	if len(found) != 1 || found[0] != addressOf(far) {
		t.Fatalf("%s is %v, want %s", name, found, addressOf(far))
	}
	if got, want := n1.asks(t, near, found[0]), "hello from pod far on node n3\n"; got != want {
		t.Errorf("the pod on n1 hears %q from that on n3, want %q", got, want)
	}
	if got, want := n3.asks(t, far, addressOf(near)), "hello from pod near on node n1\n"; got != want {
		t.Errorf("the pod on n3 hears %q from that on n1, want %q", got, want)
	}
	if logs := c.must(t, c.kubectl, "logs", "far"); !strings.Contains(logs, "from "+near.Status.PodIP) {
		t.Errorf("logs of far lack the request from %s: %q", near.Status.PodIP, logs)
	}
	c.must(t, c.kubectl, "delete", "pod/near", "pod/far", "service/far")
}

func (c *cluster) testAcross(t *testing.T, n1, n2 *machine) {
	c.submit(t, webOn(t, "first", "n1"))
	c.submit(t, webOn(t, "second", "n2"))
	first, second := c.awaitPod(t, "first", "is ready", isReady), c.awaitPod(t, "second", "is ready", isReady)
	if got, want := n1.asks(t, first, addressOf(second)), "hello from pod second on node n2\n"; got != want {
		t.Errorf("the pod on n1 hears %q from that on n2, want %q", got, want)
	}
	if got, want := n2.asks(t, second, addressOf(first)), "hello from pod first on node n1\n"; got != want {
		t.Errorf("the pod on n2 hears %q from that on n1, want %q", got, want)
	}
	// The host reaches the agents of both; pods see each other's own addresses.
	for to, from := range map[*v1.Pod]*v1.Pod{first: second, second: first} {
		if logs := c.must(t, c.kubectl, "logs", to.Name); !strings.Contains(logs, "from "+from.Status.PodIP) {
			t.Errorf("logs of %s lack the request from %s: %q", to.Name, from.Status.PodIP, logs)
		}
	}
	c.must(t, c.kubectl, "delete", "pod/first", "pod/second")
}

// testLoadBalancer asks a Service from outside the cluster: from the router's machine,
// which is on the link of n1 and n2.
func (c *cluster) testLoadBalancer(t *testing.T, n1, n2 *machine) {
	c.must(t, c.kubectl, "label", "node", "n3", v1.LabelNodeExcludeBalancers+"=") // it is on another link
	c.must(t, c.kubectl, "create", "service", "loadbalancer", "balanced", "--tcp=8080")
	var by string
	announced := func() bool {
		s, err := c.client.CoreV1().Services("default").Get(t.Context(), "balanced", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		by = s.Annotations[service.AnnouncedBy]
		return by != "" && len(s.Status.LoadBalancer.Ingress) == 1 && s.Status.LoadBalancer.Ingress[0].IP == balancerAddress
	}
	eventually(t, "the Service has its address", announced)
	dies, lives := n1, n2
	if by == "n2" {
		dies, lives = n2, n1
	}
	behind := webOn(t, "behind", lives.name)
	behind.Labels = map[string]string{"app": "balanced"}
	c.submit(t, behind)
	c.awaitPod(t, "behind", "is ready", isReady)
	want := "hello from pod behind on node " + lives.name + "\n"
	answers := func() bool { return get("http://"+net.JoinHostPort(balancerAddress, "8080")) == want }
	eventually(t, "the address answers", answers)
	if out := c.must(t, binary, "explain", "service", "balanced"); !strings.Contains(out, "node "+by+" announces "+balancerAddress) {
		t.Errorf("explain does not say who announces the address:\n%s", out)
	}
	dies.kill()
	eventually(t, "another node announces the address", func() bool { return announced() && by == lives.name })
	eventually(t, "the address answers again", answers)
	dies.join(t)
	c.must(t, c.kubectl, "delete", "service/balanced", "pod/behind")
}

// get is the body of an answer, empty where there is none.
func get(url string) string {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(body)
}
