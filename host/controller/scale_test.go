package controller

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func TestAScaleIsOnlyANumberOfReplicas(t *testing.T) {
	t.Parallel()
	o := set("web", 2)
	next, err := rescaled(o, json.RawMessage(`{"spec":{"replicas":5}}`))
	if err != nil || *next.(*appsv1.ReplicaSet).Spec.Replicas != 5 || *o.Spec.Replicas != 2 {
		t.Errorf("scaled to %+v, %v, want 5 replicas and the shared object as it was", next, err)
	}
	if same, err := rescaled(o, json.RawMessage(`{"spec":{"replicas":2}}`)); err != nil || same != o {
		t.Errorf("scaled to what it is: %+v, %v, want the same object", same, err)
	}
	for _, patch := range []string{`{}`, `{"spec":{}}`, `{"spec":{"replicas":1,"paused":true}}`, `{"metadata":{},"spec":{"replicas":1}}`, `{"spec":{"replicas":"1"}}`, `[]`, ``} {
		if next, err := rescaled(o, json.RawMessage(patch)); err == nil {
			t.Errorf("scaled by %s to %+v, want an error", patch, next)
		}
	}
	if next, err := rescaled(&v1.Pod{}, json.RawMessage(`{"spec":{"replicas":5}}`)); err == nil {
		t.Errorf("scaled a pod to %+v, want an error", next)
	}
}

func TestThePodsRequestsAndUsage(t *testing.T) {
	t.Parallel()
	request := func(name, cpu string) v1.Container {
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	sidecar := request("proxy", "10m")
	sidecar.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{request("web", "1.5"), {Name: "none"}}, InitContainers: []v1.Container{request("first", "9"), sidecar}}}
	fact := func(value json.RawMessage, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	want := `{"containers":[{"name":"web","requests":{"cpu":1500}},{"name":"none","requests":{}},{"name":"proxy","requests":{"cpu":10}}]}`
	if diff := cmp.Diff(want, fact(podRequests(p))); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	f := newFacts(nil, func(*v1.Pod) *Usage { return nil }, nil)
	if value := fact(f.podUsage(p)); value != "" {
		t.Errorf("usage that nobody measured is %s", value)
	}
}
