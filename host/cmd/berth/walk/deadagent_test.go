package walk_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// brief are tolerations of a node's death for a second.
func brief() []v1.Toleration {
	second := int64(1)
	var all []v1.Toleration
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		all = append(all, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &second})
	}
	return all
}

// createWebSet makes the quickstart's ReplicaSet, whose pods are on some nodes, and
// leave dead ones soon.
func (c *cluster) createWebSet(t *testing.T, nodes ...string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "examples/quickstart/replicaset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	set := new(appsv1.ReplicaSet)
	if err := yaml.UnmarshalStrict(data, set); err != nil {
		t.Fatal(err)
	}
	set.Spec.Template.Spec.Tolerations, set.Spec.Template.Spec.Affinity = brief(), among(nodes)
	if _, err := c.client.AppsV1().ReplicaSets("default").Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitReplicas(t, 3)
}

// testDeadAgent kills n2's agent, while a set has pods there and on n1.
func (c *cluster) testDeadAgent(t *testing.T, n1, n2 *machine) {
	c.submit(t, webOn(t, "near", "n1"))
	c.submit(t, webOn(t, "kept", "n2"))
	near := c.awaitPod(t, "near", "is ready", isReady)
	c.awaitPod(t, "kept", "is ready", isReady)
	c.createWebSet(t, "n1", "n2")
	var moved []v1.Pod
	for _, p := range c.members(t) {
		if p.Spec.NodeName == "n2" {
			moved = append(moved, p)
		}
	}
	if len(moved) == 0 || len(moved) == 3 {
		t.Fatalf("%d of 3 pods are on n2, want them spread", len(moved))
	}
	kept := c.pod(t, "kept")
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
	if c.awaitPod(t, "kept", "is not ready any more", func(p *v1.Pod) bool { return !isReady(p) }).DeletionTimestamp != nil {
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
	after := c.awaitPod(t, "kept", "is ready again", isReady)
	if after.UID != kept.UID || after.Status.ContainerStatuses[0].ContainerID != kept.Status.ContainerStatuses[0].ContainerID {
		t.Error("a pod that was not evicted did not go on as it was")
	}
	if got, want := n1.asks(t, near, addressOf(after)), "hello from pod kept on node n2\n"; got != want {
		t.Errorf("the pod that stayed says %q, want %q", got, want)
	}
	c.must(t, c.kubectl, "delete", "replicaset", "web")
	c.must(t, c.kubectl, "delete", "pod", "near", "kept")
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
