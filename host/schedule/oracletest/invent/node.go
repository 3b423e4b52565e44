package invent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (i *inventor) node(n int) v1.Node {
	name := fmt.Sprintf("n%02d", n)
	node := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: i.nodeLabels(name)}}
	for i.has("taint") && len(node.Spec.Taints) < 3 {
		node.Spec.Taints = append(node.Spec.Taints, i.taint(len(node.Spec.Taints)))
	}
	if i.has("unschedulable") {
		node.Spec.Unschedulable = true
		if i.chance(0.5) {
			node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
		}
	}
	node.Status.Allocatable = i.allocatable()
	node.Status.Capacity = node.Status.Allocatable.DeepCopy()
	node.Status.Conditions = []v1.NodeCondition{
		{Type: v1.NodeReady, Status: one(i, v1.ConditionTrue, v1.ConditionTrue, v1.ConditionFalse)},
		{Type: v1.NodeMemoryPressure, Status: one(i, v1.ConditionFalse, v1.ConditionFalse, v1.ConditionTrue)},
	}
	for _, image := range images {
		if i.has("image") {
			node.Status.Images = append(node.Status.Images, v1.ContainerImage{Names: image.names, SizeBytes: image.size + int64(i.IntN(3))<<20})
		}
	}
	return node
}

func (i *inventor) nodeLabels(name string) map[string]string {
	labels := map[string]string{"kubernetes.io/os": one(i, "linux", "linux", "windows")}
	if i.chance(0.95) {
		labels[v1.LabelHostname] = name
	}
	if i.chance(0.05) {
		labels[v1.LabelHostname] = "shared"
	}
	zone := one(i, "z1", "z2", "z3")
	if i.chance(0.9) {
		labels[v1.LabelTopologyZone] = zone
	}
	if i.chance(0.7) {
		labels[v1.LabelTopologyRegion] = one(i, "r1", "r1", "r2")
	}
	if i.chance(0.15) {
		labels[v1.LabelFailureDomainBetaZone] = zone
	}
	if i.chance(0.7) {
		labels["disk"] = one(i, "ssd", "hdd", "")
	}
	if i.chance(0.6) {
		labels["gen"] = one(i, "1", "2", "10", "007", "9223372036854775807", "92233720368547758080", "1.5", "x")
	}
	return labels
}

func (i *inventor) taint(n int) v1.Taint {
	return v1.Taint{
		Key: fmt.Sprint(one(i, "kept", "gpu", "node.kubernetes.io/memory-pressure"), "-", n), Value: one(i, "", "a", "b"),
		Effect: one(i, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute),
	}
}

// allocatable is what a node has to give; with odd amounts, some that no sane
// node would report.
func (i *inventor) allocatable() v1.ResourceList {
	list := v1.ResourceList{
		v1.ResourceCPU:              amount(i, "2", "4", "8", "3900m"),
		v1.ResourceMemory:           amount(i, "4Gi", "8Gi", "16000000000", "7.5Gi"),
		v1.ResourceEphemeralStorage: amount(i, "20Gi", "100G"),
		v1.ResourcePods:             amount(i, "5", "20", "110"),
	}
	if i.has("tight") {
		list[v1.ResourceCPU], list[v1.ResourceMemory] = amount(i, "500m", "1"), amount(i, "512Mi", "1Gi")
		list[v1.ResourcePods] = amount(i, "0", "1", "2")
	}
	for _, name := range scalars {
		if i.has("scalar") {
			list[name] = amount(i, "0", "1", "4", "8")
		}
	}
	if i.has("scalar") {
		list["hugepages-2Mi"] = amount(i, "0", "64Mi")
	}
	if i.has("odd") {
		delete(list, one(i, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods))
		list[one(i, v1.ResourceCPU, v1.ResourceMemory)] = amount(i, "0", "1n", "1e12", "1.5", "100u")
	}
	return list
}

var scalars = []v1.ResourceName{"example.com/gpu", "example.com/nic"}

func amount(i *inventor, of ...string) resource.Quantity { return resource.MustParse(one(i, of...)) }

// image is one that nodes may have.
type image struct {
	names []string
	size  int64
}

var images = []image{
	{[]string{"docker.io/library/nginx:latest", "nginx:latest"}, 60 << 20},
	{[]string{"registry:5000/big:v1"}, 900 << 20},
	{[]string{"registry:5000/big@sha256:" + digest, "registry:5000/big:latest"}, 1500 << 20},
	{[]string{"small:v1"}, 5 << 20},
	{[]string{"data:v2"}, 400 << 20},
}

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
