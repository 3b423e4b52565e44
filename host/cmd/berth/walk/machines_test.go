package walk_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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
	for n := range 3 {
		c.run(t, fmt.Sprintf("a roll-over on %d machines loses no request", n+1), func(t *testing.T) {
			c.testRollOver(t, []*machine{n1, n2, n3}, []*machine{n1, n2, n3}[:n+1])
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

// machine is a node of its own: namespaces that a process holds, in which an
// agent runs. Its containers outlive the agent.
type machine struct {
	name, address string
	dir, server   string
	holder        *exec.Cmd
	agent         *exec.Cmd
	log           *logFile
	exited        chan struct{}
}

func (c *cluster) newMachine(t *testing.T, name, bridge, address string) *machine {
	t.Helper()
	m := &machine{name: name, address: address, dir: t.TempDir(), server: c.rest.Host}
	m.holder = exec.Command("sleep", "infinity")
	m.holder.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS, Setpgid: true,
	}
	if err := m.holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.end(t)
		_ = m.holder.Process.Kill()
		_ = m.holder.Wait()
	})
	pid := strconv.Itoa(m.holder.Process.Pid)
	mustRun(t, "ip", "link", "add", "to-"+name, "type", "veth", "peer", "name", "eth0", "netns", pid)
	mustRun(t, "ip", "link", "set", "to-"+name, "master", bridge, "up")
	gateway := address[:strings.LastIndex(address, ".")] + ".1"
	for _, line := range []string{
		"mount -t tmpfs run /run", "hostname " + name, "ip link set lo up",
		"ip addr add " + address + "/24 dev eth0", "ip link set eth0 up", "ip route add default via " + gateway,
	} {
		m.must(t, strings.Fields(line)...)
	}
	return m
}

// inside is a command that runs in the machine.
func (m *machine) inside(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", strconv.Itoa(m.holder.Process.Pid), "-m", "-n", "-u", "--"}, args...)...)
}

func (m *machine) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.inside(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("on %s: %s: %v\n%s", m.name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func mustRun(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// join starts the agent and waits until the node is ready.
func (m *machine) join(t *testing.T, args ...string) {
	t.Helper()
	m.agent = m.inside(append([]string{binary, "agent", "--server", m.server, "--node-name", m.name, "--data-dir", m.dir,
		"--node-lease-duration", "2s", "--stop-pods"}, append(args, fullDisk...)...)...)
	m.log, m.exited = new(logFile), make(chan struct{})
	m.agent.Stderr = m.log
	m.agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := m.agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.agent.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		defer close(m.exited)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "node "+m.name+" is ready") {
				close(ready)
			}
		}
		_ = m.agent.Wait()
	}()
	select {
	case <-ready:
	case <-m.exited:
		t.Fatalf("the agent of %s ended before it was ready:\n%s", m.name, m.log)
	case <-time.After(time.Minute):
		t.Fatalf("the agent of %s is not ready after a minute:\n%s", m.name, m.log)
	}
}

// kill ends the agent as a crash would. Its pods run on.
func (m *machine) kill() {
	_ = m.agent.Process.Kill()
	<-m.exited
}

// end stops the agent and its pods, for which a dead one comes back.
func (m *machine) end(t *testing.T) {
	if m.agent == nil {
		return
	}
	select {
	case <-m.exited:
		m.join(t)
	default:
	}
	_ = m.agent.Process.Signal(syscall.SIGINT)
	select {
	case <-m.exited:
	case <-time.After(90 * time.Second):
		t.Errorf("the agent of %s does not end on SIGINT", m.name)
		m.kill()
	}
	if code := m.agent.ProcessState.ExitCode(); code != 0 && !t.Failed() {
		t.Errorf("the agent of %s exits with %d", m.name, code)
	}
	if t.Failed() {
		t.Logf("what the agent of %s logged last:\n%s", m.name, m.log)
	}
}

// state is where the agent keeps sockets and network namespaces.
func (m *machine) state(t *testing.T) string {
	return strings.TrimSpace(m.must(t, "sh", "-c", "echo /run/berth/*"))
}

// netns is a pod's network on this machine.
func (m *machine) netns(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/root%s/net/netns/%s-*", m.holder.Process.Pid, m.state(t), pod.UID))
	if err != nil || len(paths) != 1 {
		t.Fatalf("network namespaces of pod %s on %s: %q %v, want one", pod.Name, m.name, paths, err)
	}
	return paths[0]
}

// from does something inside a pod's network on this machine.
func (m *machine) from(t *testing.T, pod *v1.Pod, do func() error) {
	t.Helper()
	if err := fromWithin(m.netns(t, pod), do); err != nil {
		t.Fatalf("from pod %s on %s: %v", pod.Name, m.name, err)
	}
}

// asks sends a GET from inside a pod's network on this machine.
func (m *machine) asks(t *testing.T, from *v1.Pod, to netip.Addr) string {
	t.Helper()
	var body string
	m.from(t, from, func() (err error) {
		body, err = greeting(netip.AddrPortFrom(to, 8080).String())
		return err
	})
	return body
}

// fromWithin runs do in a network namespace, on a thread that ends with it.
func fromWithin(netns string, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		f, err := os.Open(netns)
		if err == nil {
			err = errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), f.Close())
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// webOn is the quickstart's pod, for one node.
func webOn(t *testing.T, name, node string) *v1.Pod {
	t.Helper()
	p := readPod(t, "examples/quickstart/pod.yaml")
	p.Name, p.Spec.NodeSelector = name, map[string]string{v1.LabelHostname: node}
	return p
}

func addressOf(p *v1.Pod) netip.Addr {
	a, _ := netip.ParseAddr(p.Status.PodIP)
	return a
}

// resolves asks the cluster's DNS for addresses, from inside a pod's network.
func (m *machine) resolves(t *testing.T, from *v1.Pod, name string) (all []netip.Addr) {
	t.Helper()
	m.from(t, from, func() (err error) {
		all, err = lookup(name)
		return err
	})
	return all
}

// lookup asks the cluster's DNS for the addresses of a name, once, on this thread.
func lookup(name string) (all []netip.Addr, err error) {
	answer, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), "10.96.0.10:53")
	if err != nil {
		return nil, err
	}
	for _, r := range answer.Answer {
		if a, ok := r.(*dns.A); ok {
			ip, _ := netip.AddrFromSlice(a.A)
			all = append(all, ip.Unmap())
		}
	}
	return all, nil
}

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
	c.must(t, c.kubectl, "cordon", "n3")
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

// brief are tolerations of a node's death for a second.
func brief() []v1.Toleration {
	second := int64(1)
	var all []v1.Toleration
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		all = append(all, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &second})
	}
	return all
}

// createWebSet makes the quickstart's ReplicaSet, whose pods leave dead nodes
// soon.
func (c *cluster) createWebSet(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "examples/quickstart/replicaset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	set := new(appsv1.ReplicaSet)
	if err := yaml.UnmarshalStrict(data, set); err != nil {
		t.Fatal(err)
	}
	set.Spec.Template.Spec.Tolerations = brief()
	if _, err := c.client.AppsV1().ReplicaSets("default").Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitReplicas(t, 3)
}

func (c *cluster) testDeadAgent(t *testing.T, n1, n2 *machine) {
	c.createWebSet(t)
	var moved []v1.Pod
	for _, p := range c.members(t) {
		if p.Spec.NodeName == "n2" {
			moved = append(moved, p)
		}
	}
	if len(moved) == 0 || len(moved) == 3 {
		t.Fatalf("%d of 3 pods are on n2, want them spread", len(moved))
	}
	kept := c.pod(t, "second")
	n2.kill()
	eventually(t, "n2 is unreachable, and says so by its taints", func() bool {
		keys := taints(c.node(t, "n2"))
		return slices.Contains(keys, "node.kubernetes.io/unreachable:NoSchedule") && slices.Contains(keys, "node.kubernetes.io/unreachable:NoExecute")
	})
	eventually(t, "3 pods of the set are ready on n1", func() bool {
		ready := 0
		for _, p := range c.members(t) {
			if p.Spec.NodeName == "n1" && isReady(&p) {
				ready++
			}
		}
		return ready == 3
	})
	for i := range moved {
		p, err := c.client.CoreV1().Pods("default").Get(t.Context(), moved[i].Name, metav1.GetOptions{})
		if err != nil || p.DeletionTimestamp == nil {
			t.Fatalf("pod %s of the dead node: %v, want it terminating until its agent confirms", moved[i].Name, err)
		}
	}
	if got := n2.asks(t, kept, addressOf(&moved[0])); !strings.HasPrefix(got, "hello from pod") {
		t.Errorf("the container of a pod that moved says %q: it runs on until the agent is back", got)
	}
	if c.awaitPod(t, "second", "is not ready any more", func(p *v1.Pod) bool { return !isReady(p) }).DeletionTimestamp != nil {
		t.Error("a pod that tolerates a dead node for 300 s was evicted")
	}

	// Without a token, since it has its certificate, but with a label: the node
	// is written beside the taints that its silence brought.
	n2.join(t, "--node-labels", "disk=ssd")
	if got := c.node(t, "n2").Labels["disk"]; got != "ssd" {
		t.Errorf("the label of a machine that was silent is %q", got)
	}
	eventually(t, "what was taken from n2 is gone", func() bool {
		for i := range moved {
			if _, err := c.client.CoreV1().Pods("default").Get(t.Context(), moved[i].Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return false
			}
		}
		return true
	})
	for i := range moved {
		c.wantGoneFrom(t, n2, &moved[i])
	}
	eventually(t, "n2 has no taints", func() bool { return len(taints(c.node(t, "n2"))) == 0 })
	after := c.awaitPod(t, "second", "is ready again", isReady)
	if after.UID != kept.UID || after.Status.ContainerStatuses[0].ContainerID != kept.Status.ContainerStatuses[0].ContainerID {
		t.Error("a pod that was not evicted did not go on as it was")
	}
	if got, want := n1.asks(t, c.pod(t, "first"), addressOf(after)), "hello from pod second on node n2\n"; got != want {
		t.Errorf("the pod that stayed says %q, want %q", got, want)
	}
	c.must(t, c.kubectl, "delete", "replicaset", "web")
	c.must(t, c.kubectl, "delete", "pod", "first", "second")
}

func (c *cluster) node(t *testing.T, name string) *v1.Node {
	t.Helper()
	n, err := c.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func taints(n *v1.Node) (keys []string) {
	for _, taint := range n.Spec.Taints {
		keys = append(keys, taint.Key+":"+string(taint.Effect))
	}
	return keys
}

// wantGoneFrom waits until a machine has no trace of a pod.
func (c *cluster) wantGoneFrom(t *testing.T, m *machine, p *v1.Pod) {
	t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Errorf("left of pod %s on %s:\n%s", p.Name, m.name, strings.Join(left, "\n"))
		}
	}()
	ctr := []string{program(t, "ctr"), "-a", filepath.Join(m.state(t), "containerd.sock"), "-n", "berth", "containers", "ls"}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/berth")
	eventually(t, "nothing is left of pod "+p.Name, func() bool {
		left = named(string(p.UID), append(groups, "/sys/fs/cgroup/berth", filepath.Join(m.dir, "agent"))...)
		for _, list := range []string{m.must(t, ctr...), m.must(t, "ls", filepath.Join(m.state(t), "net", "netns")), m.must(t, "cat", "/proc/mounts")} {
			for line := range strings.Lines(list) {
				if strings.Contains(line, string(p.UID)) {
					left = append(left, line)
				}
			}
		}
		return len(left) == 0
	})
}
