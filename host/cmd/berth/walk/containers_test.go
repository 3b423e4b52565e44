package walk_test

import (
	"bufio"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/host/polltest"
)

// TestContainers walks through the quickstart on one cluster with real
// containers.
func TestContainers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		missing(t, "containers need root")
	}
	for _, tool := range []string{"containerd", "containerd-shim-runc-v2", "runc", "ctr"} {
		program(t, tool)
	}
	c := newCluster(t, append([]string{
		"--listen", "127.0.0.1:6443", "--node-name", "n1", "--import-image", webImage(t), "--import-image", busyboxImage(t), "--stop-pods",
	}, fullDisk...)...)
	if !c.run(t, "the quickstart's pod runs, answers, and goes without a trace", c.testQuickstart) {
		return // the others would wait, each for its minutes, for the same
	}
	c.run(t, "a pod is resized in place", c.testResize)
	c.run(t, "a killed host leaves pods running and loses no acknowledged write", c.testKill)
	if campaign() {
		c.run(t, "a pod comes and goes whenever its agent is killed", c.testKills)
	}
	c.must(t, c.kubectl, "create", "namespace", "metered")
	c.must(t, c.kubectl, "run", "busy", "-n", "metered", "--image=berth.test/busybox:1", "--", "sh", "-c", "while :; do :; done")
	c.run(t, "a readiness gate holds a pod back", c.testGate)
	c.run(t, "a ReplicaSet grows and shrinks", c.testReplicaSet)
	c.run(t, "kubectl reaches into a pod", c.testStreams)
	c.run(t, "commands run in a container, one after the other", c.testExecs)
	c.run(t, "a privileged pod runs where its namespace lets it", c.testPrivileged)
	c.run(t, "kubectl top tells what a pod and its node use", c.testTop)
	c.run(t, "kubectl drain evicts within budgets", c.testDrain)
	c.run(t, "--stop-pods ends pods in order", c.testStop)
}

// testTop asks for the use of a pod that has been busy for a while.
func (c *cluster) testTop(t *testing.T) {
	use := regexp.MustCompile(`^(busy|n1) +[1-9][0-9]*m +.*[0-9]+Mi`)
	for _, of := range [][]string{{"pod", "busy", "-n", "metered"}, {"node", "n1"}} {
		eventually(t, "kubectl top tells the use of "+of[1], func() bool {
			out, _, err := c.try(c.kubectl, append(append([]string{"top"}, of...), "--no-headers")...)
			return err == nil && use.MatchString(out)
		})
	}
	c.must(t, c.kubectl, "delete", "namespace", "metered")
}

// webImage builds the quickstart's image as its README says.
func webImage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	web, archive := filepath.Join(dir, "web"), filepath.Join(dir, "web.tar")
	for _, args := range [][]string{
		{"build", "-o", web, "./examples/quickstart/web"},
		{"run", "./examples/quickstart/image", "-program", web, "-name", "berth.local/web:1", "-o", archive},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return archive
}

func (c *cluster) testQuickstart(t *testing.T) {
	c.must(t, c.kubectl, "apply", "-f", "examples/quickstart/pod.yaml")
	p := c.awaitPod(t, "web", "is ready", isReady)
	wide := strings.Fields(c.must(t, c.kubectl, "get", "pod", "web", "-o", "wide", "--no-headers"))
	if len(wide) < 7 || wide[1] != "1/1" || wide[2] != "Running" || wide[5] != p.Status.PodIP || wide[6] != "n1" {
		t.Errorf("kubectl get pods -o wide: %q, want it Running with %s on n1", wide, p.Status.PodIP)
	}
	const greeting = "hello from pod web on node n1\n"
	if got := fetch(t, "http://"+p.Status.PodIP+":8080/"); got != greeting {
		t.Errorf("the workload says %q, want %q", got, greeting)
	}
	if logs := c.must(t, c.kubectl, "logs", "web"); !strings.Contains(logs, "web serves on :8080") {
		t.Errorf("kubectl logs: %q", logs)
	}
	// The image holds nothing but the program: a second one finds the port taken.
	if said := c.mustFail(t, c.kubectl, "exec", "web", "--", "/web"); !strings.Contains(said, "address already in use") {
		t.Errorf("kubectl exec: %q", said)
	}
	if got := c.forwarded(t); got != greeting {
		t.Errorf("through port-forward the workload says %q", got)
	}
	if text := c.must(t, binary, "explain", "pod", "web"); !strings.Contains(text, "predicates refuse no node") || !strings.Contains(text, "n1 *") {
		t.Errorf("berth explain pod web:\n%s", text)
	}
	began := time.Now()
	c.must(t, c.kubectl, "delete", "pod", "web")
	grace := time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
	if took := time.Since(began); took > grace+5*time.Second {
		t.Errorf("kubectl delete took %s with a grace period of %s", took, grace)
	}
	c.wantNothingLeft(t, string(p.UID))
}

// forwarded asks the pod web through kubectl port-forward.
func (c *cluster) forwarded(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.kubectl, "--kubeconfig", c.kubeconfig(), "port-forward", "pod/web", ":8080")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("port-forward: %v", err)
	}
	var port int
	if _, err := fmt.Sscanf(line, "Forwarding from 127.0.0.1:%d ->", &port); err != nil {
		t.Fatalf("port-forward says %q: %v", line, err)
	}
	return fetch(t, fmt.Sprintf("http://127.0.0.1:%d/", port))
}

// wantNothingLeft waits until no trace of any pod is on the machine.
func (c *cluster) wantNothingLeft(t *testing.T, uid string) {
	t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Errorf("left on the machine:\n%s", strings.Join(left, "\n"))
		}
	}()
	eventually(t, "nothing is left of pod "+uid, func() bool {
		left = c.left(t, uid)
		return len(left) == 0
	})
}

// left lists containers, network namespaces, mounts, addresses and folders.
func (c *cluster) left(t *testing.T, uid string) (left []string) {
	t.Helper()
	states, err := filepath.Glob("/run/berth/*")
	if err != nil || len(states) != 1 {
		t.Fatalf("state folders: %q %v, want one", states, err)
	}
	state := states[0]
	for _, what := range []string{"containers", "tasks"} {
		list := c.must(t, program(t, "ctr"), "-a", filepath.Join(state, "containerd.sock"), "-n", "berth", what, "ls", "-q")
		for _, id := range strings.Fields(list) {
			left = append(left, what+" "+id)
		}
	}
	left = append(left, leases(t, filepath.Join(state, "net", "leases"))...)
	namespaces, err := os.ReadDir(filepath.Join(state, "net", "netns"))
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespaces {
		left = append(left, "network namespace "+ns.Name())
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, state+"/") || strings.Contains(line, c.dir) {
			left = append(left, "mount "+line)
		}
	}
	left = append(left, named(uid, filepath.Join(c.dir, "agent"))...)
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/berth")
	return append(left, named(uid, append(groups, "/sys/fs/cgroup/berth")...)...)
}

// leases lists the addresses that host-local has given away.
func leases(t *testing.T, dir string) (left []string) {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		found = found || strings.HasPrefix(filepath.Base(path), "last_reserved_ip")
		if _, bad := netip.ParseAddr(filepath.Base(path)); bad == nil {
			left = append(left, "address "+filepath.Base(path))
		}
		return err
	})
	if err != nil || !found {
		t.Fatalf("no leases were ever in %s: %v", dir, err)
	}
	return left
}

// named lists the paths under dirs that carry a pod's uid.
func named(uid string, dirs ...string) (left []string) {
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
			if strings.Contains(filepath.Base(path), uid) {
				left = append(left, "path "+path)
			}
			return nil // what vanishes under way is not left
		})
	}
	return left
}

func (c *cluster) testResize(t *testing.T) {
	p := readPod(t, "examples/quickstart/pod.yaml")
	p.Name = "resized"
	c.submit(t, p)
	before := c.awaitPod(t, "resized", "is ready", isReady)
	c.resize(t, "resized", `{"requests":{"cpu":"100m"},"limits":{"memory":"96Mi"}}`)
	after := c.awaitPod(t, "resized", "has its new resources", func(p *v1.Pod) bool {
		have := p.Status.ContainerStatuses[0].Resources
		return have != nil && have.Limits.Memory().Value() == 96<<20 && have.Requests.Cpu().MilliValue() == 100
	})
	was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]
	if is.ContainerID != was.ContainerID || is.RestartCount != 0 || is.AllocatedResources.Cpu().MilliValue() != 100 {
		t.Errorf("after the resize %+v\nwant the same container as %+v, with 100m allocated", is, was)
	}
	for _, of := range []string{"pod", "container"} {
		if got := memoryLimits(t, after, of); len(got) == 0 || slices.ContainsFunc(got, func(n string) bool { return n != strconv.Itoa(96<<20) }) {
			t.Errorf("memory limits of the %s's cgroups = %v, want 96Mi", of, got)
		}
	}

	c.resize(t, "resized", `{"requests":{"cpu":"9000"}}`)
	p = c.awaitPod(t, "resized", "is told that no such node is there", func(p *v1.Pod) bool {
		said := condition(p, v1.PodResizePending)
		return said.Status == v1.ConditionTrue && said.Reason == v1.PodReasonInfeasible
	})
	if got := p.Status.ContainerStatuses[0].AllocatedResources.Cpu().MilliValue(); got != 100 {
		t.Errorf("%dm are allocated, want the 100m that it had", got)
	}
	c.resize(t, "resized", `{"requests":{"cpu":"50m"}}`)
	c.awaitPod(t, "resized", "has less, and nothing is pending", func(p *v1.Pod) bool {
		return p.Status.ContainerStatuses[0].AllocatedResources.Cpu().MilliValue() == 50 && condition(p, v1.PodResizePending).Status == "absent" &&
			condition(p, v1.PodResizeInProgress).Status == "absent"
	})
	c.must(t, c.kubectl, "delete", "pod", "resized")
}

func (c *cluster) resize(t *testing.T, pod, resources string) {
	t.Helper()
	patch := `{"spec":{"containers":[{"name":"web","resources":` + resources + `}]}}`
	c.must(t, c.kubectl, "patch", "pod", pod, "--subresource=resize", "--type=strategic", "-p", patch)
}

// memoryLimits reads what the kernel holds the pod to, or its containers that
// have a limit: the pause process has none.
func memoryLimits(t *testing.T, p *v1.Pod, of string) (limits []string) {
	t.Helper()
	below := map[string]string{"pod": "", "container": "*/"}[of]
	for _, pattern := range []string{"memory/berth/*/kubepods/*/pod%s/%smemory.limit_in_bytes", "berth/*/kubepods/*/pod%s/%smemory.max"} {
		files, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/"+pattern, p.UID, below))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
			if err == nil && n < 1<<60 {
				limits = append(limits, strconv.FormatUint(n, 10))
			}
		}
	}
	return limits
}

func (c *cluster) testKill(t *testing.T) {
	c.must(t, c.kubectl, "apply", "-f", "examples/quickstart/pod.yaml")
	before := c.awaitPod(t, "web", "is ready", isReady)
	acknowledged := c.writeUntilKilled(t)
	fetch(t, "http://"+before.Status.PodIP+":8080/alone")
	c.start()
	after := c.awaitPod(t, "web", "is ready again", isReady)
	was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]
	if after.UID != before.UID || is.ContainerID != was.ContainerID || is.RestartCount != 0 || after.Status.PodIP != before.Status.PodIP {
		t.Errorf("after the kill: pod %s, %+v\nwant pod %s, %+v", after.UID, is, before.UID, was)
	}
	maps, err := c.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for i := range maps.Items {
		have[maps.Items[i].Name] = true
	}
	for _, name := range acknowledged {
		if !have[name] {
			t.Errorf("ConfigMap %s was acknowledged and is gone", name)
		}
	}
	// The agent that was started anew knows the pod: it reads its logs and ends it.
	if logs := c.must(t, c.kubectl, "logs", "web"); !strings.Contains(logs, "GET /alone") {
		t.Errorf("logs lack the request that came while the host was down: %q", logs)
	}
	c.must(t, c.kubectl, "delete", "pod", "web")
	c.wantNothingLeft(t, string(after.UID))
}

// testKills kills host and agent at any moment of a pod's start and of its end.
// nodeagent's own tests do so at each step, over a fake runtime.
func (c *cluster) testKills(t *testing.T) {
	const kills, span = 20, 1500 * time.Millisecond
	for i := range kills {
		at := span * time.Duration(i) / kills
		c.must(t, c.kubectl, "apply", "-f", "examples/quickstart/pod.yaml")
		polltest.Pass(at)
		c.kill()
		c.start()
		p := c.awaitPod(t, "web", fmt.Sprintf("is ready, its agent killed after %s", at), isReady)
		if n := p.Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("killed after %s: the container was started %d times more", at, n)
		}
		c.must(t, c.kubectl, "delete", "pod", "web", "--wait=false")
		polltest.Pass(at)
		c.kill()
		c.start()
		c.wantNothingLeft(t, string(p.UID))
		eventually(t, "the pod has gone", func() bool {
			_, err := c.client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
}

// writeUntilKilled kills the host in the middle of writes and returns those
// that it had acknowledged.
func (c *cluster) writeUntilKilled(t *testing.T) (acknowledged []string) {
	t.Helper()
	const enough = 50
	wrote := make(chan string)
	go func() {
		defer close(wrote)
		for i := 0; ; i++ {
			name := fmt.Sprintf("acknowledged-%d", i)
			m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": name}}
			if _, err := c.client.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
				return
			}
			wrote <- name
		}
	}()
	var killing sync.WaitGroup
	for name := range wrote {
		if acknowledged = append(acknowledged, name); len(acknowledged) == enough {
			killing.Go(c.kill)
		}
	}
	killing.Wait()
	if len(acknowledged) < enough {
		t.Fatalf("only %d writes before the host was killed", len(acknowledged))
	}
	return acknowledged
}

func (c *cluster) testGate(t *testing.T) {
	const held, foreign = "berth.dev/MinReadySeconds", "example.test/Checked"
	p := readPod(t, "examples/quickstart/pod.yaml")
	p.Name, p.Annotations = "gated", map[string]string{"berth.dev/min-ready-seconds": "2"}
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: held}, {ConditionType: foreign}}
	if _, err := c.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p = c.awaitPod(t, "gated", "passes its checker", func(p *v1.Pod) bool {
		if isReady(p) {
			t.Fatalf("ready although %s is not True: %+v", foreign, p.Status.Conditions)
		}
		return condition(p, held).Status == v1.ConditionTrue
	})
	running, passed := condition(p, v1.ContainersReady), condition(p, held)
	if waited := passed.LastTransitionTime.Sub(running.LastTransitionTime.Time); waited < 2*time.Second {
		t.Errorf("%s is True %s after the containers are ready, want 2s at least", held, waited)
	}
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True"}]}}`, foreign)
	c.must(t, c.kubectl, "patch", "pod", "gated", "--subresource=status", "--type=strategic", "-p", patch)
	c.awaitPod(t, "gated", "is ready", isReady)
	c.must(t, c.kubectl, "delete", "pod", "gated")
}

func readPod(t *testing.T, path string) *v1.Pod {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	p := new(v1.Pod)
	if err := yaml.UnmarshalStrict(data, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func (c *cluster) testReplicaSet(t *testing.T) {
	c.must(t, c.kubectl, "apply", "-f", "examples/quickstart/replicaset.yaml")
	c.awaitReplicas(t, 3)
	c.must(t, c.kubectl, "scale", "replicaset", "web", "--replicas=4")
	c.awaitReplicas(t, 4)
	c.must(t, c.kubectl, "scale", "replicaset", "web", "--replicas=1")
	c.awaitReplicas(t, 1)
	c.must(t, c.kubectl, "delete", "replicaset", "web")
	eventually(t, "the pods of a deleted ReplicaSet go", func() bool { return len(c.members(t)) == 0 })
}

// awaitReplicas waits until n pods of the set are ready, and it counts so many.
func (c *cluster) awaitReplicas(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("ReplicaSet web has %d ready pods", n), func() bool {
		set, err := c.client.AppsV1().ReplicaSets("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pods := c.members(t)
		for i := range pods {
			if !isReady(&pods[i]) || !metav1.IsControlledBy(&pods[i], set) {
				return false
			}
		}
		return len(pods) == n && int(set.Status.ReadyReplicas) == n && int(set.Status.Replicas) == n
	})
}

func (c *cluster) members(t *testing.T) []v1.Pod {
	t.Helper()
	list, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web-set"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}
