package walk_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/build"
)

// TestKwok runs programs of other authors on one cluster: the kwok controller,
// which pretends to be its nodes, and, in a campaign or where it is at hand,
// kube-state-metrics, which tells what is in it and costs much to build.
func TestKwok(t *testing.T) {
	t.Parallel()
	program(t, "kwok")
	c := newCluster(t, "--listen", "127.0.0.1:0", "--agent", "none")
	t.Run("kwok makes nodes ready and their pods run", c.testKwok)
}

// startKwok runs the controller with its own role and its own fast stages.
func (c *cluster) startKwok(t *testing.T) {
	t.Helper()
	own := filepath.Join(build.ToolsDir(), "share", "kwok")
	c.must(t, c.kubectl, "apply", "-f", filepath.Join(own, "role.yaml"))
	outside(t, "kwok", "--kubeconfig", c.credentials(t, "kwok", "kwok-controller"), "--config", filepath.Join(own, "stages.yaml"),
		"--manage-nodes-with-label-selector", "type=kwok", "--node-lease-duration-seconds", "40", "--node-ip", "192.0.2.1", "--cidr", "10.86.0.1/24", "--v", "DEBUG")
}

func (c *cluster) testKwok(t *testing.T) {
	c.startKwok(t)
	for i := range 3 {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fake-%d", i), Labels: map[string]string{"type": "kwok", v1.LabelHostname: fmt.Sprintf("fake-%d", i)}}}
		if _, err := c.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "three fake nodes are ready, untainted, and renew their Leases", func() bool { return c.readyNodes(t) == 3 })
	c.must(t, c.kubectl, "apply", "-f", "examples/quickstart/replicaset.yaml")
	c.awaitReplicas(t, 3)
	on := map[string]bool{}
	for _, p := range c.members(t) {
		on[p.Spec.NodeName] = true
		if !isRunning(&p) || !strings.HasPrefix(p.Status.PodIP, "10.") || p.Status.HostIP != "192.0.2.1" {
			t.Errorf("pod %s: phase %s, address %s on %s", p.Name, p.Status.Phase, p.Status.PodIP, p.Status.HostIP)
		}
	}
	if len(on) != 3 {
		t.Errorf("three pods are on %d of three nodes", len(on))
	}
	if _, err := os.Stat(filepath.Join(build.ToolsDir(), "bin", "kube-state-metrics")); err == nil && !alone() || campaign() {
		t.Run("kube-state-metrics counts what is there", c.testStateMetrics)
	}
	c.must(t, c.kubectl, "scale", "replicaset", "web", "--replicas=5")
	c.awaitReplicas(t, 5)
	c.must(t, c.kubectl, "delete", "replicaset", "web")
	eventually(t, "kwok lets the pods of a deleted ReplicaSet go", func() bool { return len(c.members(t)) == 0 })
}

func (c *cluster) readyNodes(t *testing.T) (ready int) {
	t.Helper()
	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		lease, err := c.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), n.Name, metav1.GetOptions{})
		if err != nil || lease.Spec.RenewTime == nil || len(n.Spec.Taints) > 0 {
			continue
		}
		for _, cond := range n.Status.Conditions {
			if cond.Type == v1.NodeReady && cond.Status == v1.ConditionTrue {
				ready++
			}
		}
	}
	return ready
}

// testStateMetrics scrapes kube-state-metrics, which is left to ask for all
// kinds that it knows, those that Berth does not serve among them.
func (c *cluster) testStateMetrics(t *testing.T) {
	two := int32(2)
	labels := map[string]string{"app": "told"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "told"}, Spec: appsv1.DeploymentSpec{
		Replicas: &two, Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: smallPod("", nil).Spec},
	}}
	if _, err := c.client.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := filepath.Join(build.ToolsDir(), "share", "kube-state-metrics", "role.yaml")
	c.must(t, c.kubectl, "apply", "-f", role)
	port := freePort(t)
	outside(t, "kube-state-metrics", "--kubeconfig", c.credentials(t, "kube-state-metrics-walk", "kube-state-metrics"),
		"--host=127.0.0.1", fmt.Sprintf("--port=%d", port), "--telemetry-host=127.0.0.1", fmt.Sprintf("--telemetry-port=%d", freePort(t)))
	url := fmt.Sprintf("http://127.0.0.1:%d/metrics", port)
	want := map[string]string{
		`kube_deployment_spec_replicas{namespace="default",deployment="told"}`:        "2",
		`kube_replicaset_status_ready_replicas{namespace="default",replicaset="web"}`: "3",
		`kube_node_status_condition{node="fake-0",condition="Ready",status="true"}`:   "1",
		`kube_node_status_capacity{node="fake-2",resource="cpu",unit="core"}`:         "1000",
		`kube_namespace_status_phase{namespace="kube-system",phase="Active"}`:         "1",
	}
	pods := c.members(t)
	for i := range pods {
		p := &pods[i]
		want[fmt.Sprintf(`kube_pod_status_phase{namespace="default",pod=%q,uid=%q,phase="Running"}`, p.Name, p.UID)] = "1"
		want[fmt.Sprintf(`kube_pod_container_resource_requests{namespace="default",pod=%q,uid=%q,container="web",node=%q,resource="cpu",unit="core"}`,
			p.Name, p.UID, p.Spec.NodeName)] = "0.02"
	}
	var text string
	var missing []string
	defer func() {
		if len(missing) > 0 {
			t.Logf("not told:\n%s\nbut:\n%.20000s", strings.Join(missing, "\n"), text)
		}
	}()
	eventually(t, "kube-state-metrics tells of pods, sets, deployments and nodes", func() bool {
		text, missing = scrape(t, url), nil
		for series, value := range want {
			if !strings.Contains(text, "\n"+strings.TrimSpace(series+" "+value)) {
				missing = append(missing, series+" "+value)
			}
		}
		return len(missing) == 0
	})
}

// scrape returns what is told, nothing while nobody answers.
func scrape(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
