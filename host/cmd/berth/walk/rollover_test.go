package walk_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const (
	// steadyCount pods are of a Deployment behind a Service of the same name.
	steady, steadyCount = "steady", 4
	// endures is how long a pod that was told to go serves on, as long as nodes may
	// take to send nothing to it any more.
	endures = 5
)

// deploySteady makes the Deployment on some machines, one pod at least on each,
// and gives its Service. On one machine it is as kubectl create deployment makes it:
// nothing is asked whether it is ready, and nothing is told to serve on.
func (c *cluster) deploySteady(t *testing.T, machines []*machine) *v1.Service {
	t.Helper()
	var names []string
	for _, m := range machines {
		names = append(names, m.name)
	}
	labels := map[string]string{"app": steady}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: readPod(t, "examples/quickstart/pod.yaml").Spec}
	template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	if app := &template.Spec.Containers[0]; len(machines) > 1 {
		app.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: endures}}}
	} else {
		app.ReadinessProbe = nil
	}
	template.Spec.Affinity = among(names)
	template.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
	}}
	_, err := c.client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: steady},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](steadyCount), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	svc, err := c.client.CoreV1().Services("default").Create(t.Context(), &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: steady},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeNodePort, Selector: labels, Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.must(t, c.kubectl, "delete", "deployment/"+steady, "service/"+steady)
		c.must(t, c.kubectl, "wait", "--for=delete", "pod", "-l", "app="+steady, "--timeout=1m")
	})
	c.must(t, c.kubectl, "rollout", "status", "deployment/"+steady, "--timeout=1m")
	on := map[string]bool{}
	for _, p := range c.steadyPods(t) {
		on[p.Spec.NodeName] = true
	}
	if len(on) != len(names) {
		t.Fatalf("pods are on %v, want some on each of %v", on, names)
	}
	return svc
}

// among has pods be on some nodes.
func among(nodes []string) *v1.Affinity {
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: nodes},
		}}},
	}}}
}

// steadyPods are those that are there, and those that end.
func (c *cluster) steadyPods(t *testing.T) []v1.Pod {
	t.Helper()
	list, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + steady})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// byName is greeting by what the cluster's DNS says at that moment.
func byName(name string) (string, error) {
	found, err := lookup(name + ".default.svc.cluster.local.")
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s has the addresses %v", name, found)
	}
	return greeting(netip.AddrPortFrom(found[0], 80).String())
}

// clientOn is the network of a pod that asks, on a machine.
func (c *cluster) clientOn(t *testing.T, m *machine) string {
	t.Helper()
	c.submit(t, webOn(t, "asker", m.name))
	t.Cleanup(func() { c.must(t, c.kubectl, "delete", "pod/asker") })
	return m.netns(t, c.awaitPod(t, "asker", "is ready", isReady))
}

// testRollOver: a Deployment on some machines gets another template while a pod
// of the first connects to its Service by address and by name, and the router's
// machine, which is of no node, by the node port of each. No request fails.
func (c *cluster) testRollOver(t *testing.T, machines, on []*machine) {
	svc := c.deploySteady(t, on)
	pod := c.clientOn(t, on[0])
	eventually(t, "the Service answers by its name", func() bool {
		return fromWithin(pod, func() error { _, err := byName(steady); return err }) == nil
	})
	l := newLoad(t)
	const every = 5 * time.Millisecond
	address := net.JoinHostPort(svc.Spec.ClusterIP, "80")
	l.add("by its address", pod, every, func() (string, error) { return greeting(address) })
	l.add("by its name", pod, every, func() (string, error) { return byName(steady) })
	for _, m := range machines {
		port := fmt.Sprintf("%s:%d", m.address, svc.Spec.Ports[0].NodePort)
		l.add("by the node port of "+m.name, "", every, func() (string, error) { return greeting(port) })
	}
	rollOvers := 1
	if campaign() {
		rollOvers = 10
	}
	for range rollOvers {
		l.await(t, 20)
		old := c.steadyPods(t)
		c.must(t, c.kubectl, "rollout", "restart", "deployment/"+steady)
		c.must(t, c.kubectl, "rollout", "status", "deployment/"+steady, "--timeout=2m")
		eventually(t, "the old pods are gone", func() bool {
			return !slices.ContainsFunc(c.steadyPods(t), func(p v1.Pod) bool {
				return slices.ContainsFunc(old, func(o v1.Pod) bool { return o.UID == p.UID })
			})
		})
	}
	l.await(t, 100)
	l.wantNoneFailed(t)
	for _, p := range c.steadyPods(t) {
		if !l.seen[fmt.Sprintf("hello from pod %s on node %s\n", p.Name, p.Spec.NodeName)] {
			t.Errorf("pod %s on %s, which came by the roll-over, served nobody", p.Name, p.Spec.NodeName)
		}
	}
}

// testAgentIsKilledUnderLoad: 2,000 connections a second, half from a pod of the
// machine and half to its node port, while its agent is killed and comes back.
func (c *cluster) testAgentIsKilledUnderLoad(t *testing.T, m, other *machine) {
	svc := c.deploySteady(t, []*machine{m, other})
	pod := c.clientOn(t, m)
	address, port := net.JoinHostPort(svc.Spec.ClusterIP, "80"), fmt.Sprintf("%s:%d", m.address, svc.Spec.Ports[0].NodePort)
	eventually(t, "the node port answers", func() bool { _, err := greeting(port); return err == nil })
	const clients, every = 10, 10 * time.Millisecond // of each kind
	l := newLoad(t)
	begun := time.Now()
	for i := range clients {
		l.add(fmt.Sprint("by its address ", i), pod, every, func() (string, error) { return connect(address) })
		l.add(fmt.Sprint("by the node port ", i), "", every, func() (string, error) { return connect(port) })
	}
	for range 2 {
		l.await(t, 100)
		m.kill()
		l.await(t, 100)
		m.join(t)
	}
	l.await(t, 100)
	took := time.Since(begun)
	l.wantNoneFailed(t)
	all := 0
	for _, n := range l.asked {
		all += n
	}
	t.Logf("%d connections, %.0f a second", all, float64(all)/took.Seconds())
}
