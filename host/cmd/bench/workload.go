package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workload is one of scheduler_perf's shapes.
type workload struct {
	name string
	// upstream is what scheduler_perf calls it.
	upstream upstream
	// aimRatio is the aim in multiples of kube-scheduler's rate, aimRate in pods/s.
	aimRatio, aimRate float64
	nodes             int
	zones             []string
	init              int
	initPod           func() *v1.Pod
	measured          int
	pod               func() *v1.Pod
	// each is pod for workloads whose pods differ from one another.
	each func(i int) *v1.Pod
	// beside is created every 200 ms while the clock runs; nil for nothing.
	beside func() *v1.Pod
	// joining is how many further nodes come while the clock runs.
	joining int
}

const (
	first  = "sched-0"
	second = "sched-1"
)

var workloads = []workload{
	{name: "SchedulingBasic", upstream: upstream{"misc", "SchedulingBasic/5000Nodes_10000Pods_QueueingHintsEnabled"},
		aimRatio: 20, nodes: 5000, init: 1000, initPod: plain, measured: 10000, pod: plain},
	{name: "SchedulingNodeAffinity", upstream: upstream{"affinity", "SchedulingNodeAffinity/5000Nodes_10000Pods_QueueingHintsEnabled"},
		aimRatio: 20, nodes: 5000, zones: []string{"zone1"},
		init: 5000, initPod: inZone, measured: 10000, pod: inZone},
	{name: "SchedulingPodAntiAffinity", upstream: upstream{"affinity", "SchedulingPodAntiAffinity/5000Nodes_2000Pods_QueueingHintsEnabled"},
		aimRatio: 20, nodes: 5000,
		init: 1000, initPod: in(first, apart), measured: 2000, pod: in(second, apart)},
	{name: "SchedulingPodAffinity", upstream: upstream{"affinity", "SchedulingPodAffinity/5000Nodes_5000Pods_QueueingHintsEnabled"},
		aimRate: 3000, nodes: 5000, zones: []string{"zone1"},
		init: 5000, initPod: in(first, together), measured: 5000, pod: in(second, together)},
	{name: "SchedulingPreferredPodAffinity", upstream: upstream{"affinity", "SchedulingPreferredPodAffinity/5000Nodes_5000Pods_QueueingHintsEnabled"},
		aimRate: 3000, nodes: 5000,
		init: 5000, initPod: in(first, preferTogether), measured: 5000, pod: in(second, preferTogether)},
	{name: "TopologySpreading", upstream: upstream{"topology_spreading", "TopologySpreading/5000Nodes_5000Pods_QueueingHintsEnabled"},
		aimRate: 3000, nodes: 5000, zones: []string{"moon-1", "moon-2", "moon-3"},
		init: 5000, initPod: plain, measured: 5000, pod: spread(v1.DoNotSchedule)},
	{name: "PreferredTopologySpreading", upstream: upstream{"topology_spreading", "PreferredTopologySpreading/5000Nodes_5000Pods_QueueingHintsEnabled"},
		aimRate: 3000, nodes: 5000, zones: []string{"moon-1", "moon-2", "moon-3"},
		init: 5000, initPod: plain, measured: 5000, pod: spread(v1.ScheduleAnyway)},
	{name: "Unschedulable", upstream: upstream{"misc", "Unschedulable/5kNodes/100Init/10kPods_AsyncAPICallsEnabled"},
		aimRatio: 20, nodes: 5000, init: 100, initPod: plain, measured: 10000, pod: plain, beside: tooLarge},
	{name: "AllDifferent", aimRatio: 20, nodes: 5000, init: 1000, initPod: plain, measured: 2000, each: unlike},
	{name: "PreemptionBasic", upstream: upstream{"misc", "PreemptionBasic/1000Nodes_AsyncAPICallsEnabled"},
		aimRate: 1000, nodes: 1000, init: 4000, initPod: low, measured: 1000, pod: high},
	{name: "NodesJoining", aimRate: 6000, nodes: 10_000, init: 1000, initPod: plain, measured: 60_000, pod: plain, joining: 10_000},
}

// unlike is a pod that has requests, labels, tolerations and affinity of its own.
func unlike(i int) *v1.Pod {
	p := plain()
	p.Labels = map[string]string{"app": fmt.Sprint("app-", i)}
	use := amounts("50m", "100Mi")
	use[v1.ResourceCPU] = *resource.NewMilliQuantity(50+int64(i%200), resource.DecimalSI)
	use[v1.ResourceMemory] = *resource.NewQuantity(100<<20+int64(i)<<12, resource.BinarySI)
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: use, Limits: use}
	p.Spec.Tolerations = []v1.Toleration{{Key: fmt.Sprint("kept-for-", i), Operator: v1.TolerationOpExists}}
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpNotIn, Values: []string{fmt.Sprint("lost-", i)}},
		}}},
	}}}
	return p
}

// scaled is the workload on fewer nodes, with as many fewer pods.
func (w workload) scaled(nodes int) workload {
	if nodes == 0 || nodes == w.nodes {
		return w
	}
	w.init, w.measured, w.joining = w.init*nodes/w.nodes, max(w.measured*nodes/w.nodes, 100), w.joining*nodes/w.nodes
	w.nodes, w.upstream, w.aimRatio, w.aimRate = nodes, upstream{}, 0, 0
	return w
}

func amounts(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

func (w workload) node(i int) *v1.Node {
	name := fmt.Sprintf("node-%05d", i)
	have := amounts("4", "32Gi")
	have[v1.ResourcePods] = resource.MustParse("110")
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{Capacity: have, Allocatable: have, Conditions: []v1.NodeCondition{
			{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"},
		}},
	}
	if len(w.zones) > 0 {
		n.Labels[v1.LabelTopologyZone] = w.zones[i%len(w.zones)]
	}
	return n
}

func plain() *v1.Pod {
	use := amounts("100m", "500Mi")
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Namespace: second},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "pause", Image: "registry.k8s.io/pause:3.10", Ports: []v1.ContainerPort{{ContainerPort: 80}},
			Resources: v1.ResourceRequirements{Requests: use, Limits: use},
		}}},
	}
}

// in puts what make makes into a namespace.
func in(namespace string, make func() *v1.Pod) func() *v1.Pod {
	return func() *v1.Pod {
		p := make()
		p.Namespace = namespace
		return p
	}
}

func inZone() *v1.Pod {
	p := plain()
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"zone1", "zone2"}},
		}}},
	}}}
	return p
}

func colored(color string) (*v1.Pod, v1.PodAffinityTerm) {
	p := plain()
	p.Labels = map[string]string{"color": color}
	return p, v1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		TopologyKey:   v1.LabelHostname, Namespaces: []string{first, second},
	}
}

func apart() *v1.Pod {
	p, term := colored("green")
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	return p
}

func together() *v1.Pod {
	p, term := colored("blue")
	term.TopologyKey = v1.LabelTopologyZone
	p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	return p
}

func preferTogether() *v1.Pod {
	p, term := colored("red")
	p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
		{Weight: 1, PodAffinityTerm: term},
	}}}
	return p
}

func spread(how v1.UnsatisfiableConstraintAction) func() *v1.Pod {
	return func() *v1.Pod {
		p := plain()
		p.Labels = map[string]string{"color": "blue"}
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 5, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: how,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
		return p
	}
}

func withPriority(p *v1.Pod, cpu, class string) *v1.Pod {
	use := amounts(cpu, "500Mi")
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: use, Limits: use}
	p.Spec.PriorityClassName = class
	return p
}

const urgent = "urgent"

func tooLarge() *v1.Pod { return withPriority(in(first, plain)(), "9", urgent) }

func low() *v1.Pod {
	p, now := withPriority(plain(), "900m", ""), int64(0)
	p.Spec.TerminationGracePeriodSeconds = &now
	return p
}

func high() *v1.Pod { return withPriority(plain(), "3", urgent) }
