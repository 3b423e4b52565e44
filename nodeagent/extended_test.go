package nodeagent_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExtendedResources are given to the node by others: the agent holds pods to
// what the API says of them, and lets those through that it does not know.
func TestExtendedResources(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, fakes: newFakes(t.TempDir(), nil)}
	given := v1.ResourceList{"example.com/fpga": resource.MustParse("2")}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1.NodeStatus{Capacity: given, Allocatable: given}}
	if _, err := m.api.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.start()
	t.Cleanup(func() { m.stop() })
	run := func(name string, wants v1.ResourceName, count string) {
		p := newPod(name, "sleep 600")
		list := v1.ResourceList{wants: resource.MustParse(count)}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
		m.create(p)
	}
	run("fits", "example.com/fpga", "2")
	m.await("fits", "running", running)
	run("over", "example.com/fpga", "1")
	m.await("over", "refused", func(p *v1.Pod) bool { return p.Status.Reason == "OutOfexample.com_fpga" })
	run("unknown", "example.com/tpu", "1")
	m.await("unknown", "running", running)
	got, err := m.api.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if q := got.Status.Allocatable["example.com/fpga"]; q.Value() != 2 {
		t.Errorf("the node has %v", got.Status.Allocatable)
	}
}
