package policytest

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node makes a ready node. change may be nil.
func Node(name, cpu, memory string, pods int64, change func(*v1.Node)) *v1.Node {
	list := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory),
		v1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
	}
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: map[string]string{v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Capacity: list, Allocatable: list, Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
	if change != nil {
		change(n)
	}
	return n
}

// Pod makes a pod of one container. change may be nil.
func Pod(name, cpu, memory string, change func(*v1.Pod)) *v1.Pod {
	requests := v1.ResourceList{}
	if cpu != "" {
		requests[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		requests[v1.ResourceMemory] = resource.MustParse(memory)
	}
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("pod-" + name)},
		Spec: v1.PodSpec{
			SchedulerName: "default-scheduler",
			Containers:    []v1.Container{{Name: "main", Image: "example.com/app", Resources: v1.ResourceRequirements{Requests: requests}}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

// Nodes makes n equal nodes.
func Nodes(n int) []*v1.Node {
	nodes := make([]*v1.Node, n)
	for i := range nodes {
		nodes[i] = Node(fmt.Sprintf("node-%05d", i), "4", "32Gi", 110, func(n *v1.Node) {
			n.Labels[v1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%3)
		})
	}
	return nodes
}
