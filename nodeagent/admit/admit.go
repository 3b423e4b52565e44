// Package admit judges pods that were bound past the scheduler, as the kubelet
// does: GeneralPredicates (resources, host ports, node name, node selector and
// affinity) and taints of effect NoExecute. It is pure: values in, verdict out.
package admit

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	machine "github.com/berth-dev/berth/nodeagent/node"
	"github.com/berth-dev/berth/nodeagent/pod"
)

// Features are what the machine can do for pods.
type Features struct {
	// OS is the machine's, in Go's words.
	OS string
	// AppArmor: its kernel enforces profiles.
	AppArmor bool
}

// Admit gives nil for a pod that may run on the node beside the active ones,
// else why not.
func Admit(node *v1.Node, f Features, active []*v1.Pod, p *v1.Pod) *pod.Verdict {
	if v := f.lack(node, p); v != nil {
		v.Message = "Pod was rejected: " + v.Message
		return v
	}
	for _, judge := range []func(*v1.Node, []*v1.Pod, *v1.Pod) *pod.Verdict{taints, place, ports, resources} {
		if v := judge(node, active, p); v != nil {
			v.Message = "Pod was rejected: " + v.Message
			return v
		}
	}
	return nil
}

func taints(node *v1.Node, _ []*v1.Pod, p *v1.Pod) *pod.Verdict {
	_, hit := corev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, p.Spec.Tolerations,
		func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }, true)
	if !hit {
		return nil
	}
	return &pod.Verdict{Reason: "TaintToleration", Message: "Predicate TaintToleration failed: node(s) had untolerated taint(s)"}
}

func place(node *v1.Node, _ []*v1.Pod, p *v1.Pod) *pod.Verdict {
	if p.Spec.NodeName != "" && p.Spec.NodeName != node.Name {
		return &pod.Verdict{Reason: "NodeName", Message: "Predicate NodeName failed: node(s) didn't match the requested node name"}
	}
	ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(node)
	if err != nil {
		return &pod.Verdict{Reason: "NodeAffinity", Message: fmt.Sprintf("Predicate NodeAffinity failed: %v", err)}
	}
	if !ok {
		return &pod.Verdict{Reason: "NodeAffinity", Message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	return nil
}

type hostPort struct {
	ip, protocol string
	port         int32
}

func hostPorts(p *v1.Pod) []hostPort {
	var out []hostPort
	add := func(c *v1.Container) {
		for _, port := range c.Ports {
			if port.HostPort <= 0 {
				continue
			}
			h := hostPort{ip: port.HostIP, protocol: string(port.Protocol), port: port.HostPort}
			if h.ip == "" {
				h.ip = "0.0.0.0"
			}
			if h.protocol == "" {
				h.protocol = "TCP"
			}
			out = append(out, h)
		}
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return out
}

func ports(_ *v1.Node, active []*v1.Pod, p *v1.Pod) *pod.Verdict {
	want := hostPorts(p)
	if len(want) == 0 {
		return nil
	}
	for _, other := range active {
		for _, have := range hostPorts(other) {
			if slices.ContainsFunc(want, func(w hostPort) bool {
				return w.port == have.port && w.protocol == have.protocol && (w.ip == have.ip || w.ip == "0.0.0.0" || have.ip == "0.0.0.0")
			}) {
				return &pod.Verdict{Reason: "NodePorts", Message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
			}
		}
	}
	return nil
}

func resources(node *v1.Node, active []*v1.Pod, p *v1.Pod) *pod.Verdict {
	if most := node.Status.Allocatable.Pods().Value(); int64(len(active))+1 > most {
		return outOf("pods", 1, int64(len(active)), most)
	}
	used := v1.ResourceList{}
	for _, other := range active {
		for name, q := range resource.PodRequests(other, resource.PodResourcesOptions{}) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	requests := resource.PodRequests(p, resource.PodResourcesOptions{})
	names := make([]v1.ResourceName, 0, len(requests))
	for name := range requests {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		want, have, all := requests[name], used[name], node.Status.Allocatable[name]
		if want.IsZero() {
			continue
		}
		if _, known := node.Status.Allocatable[name]; !known && machine.IsExtended(name) {
			continue // as by the kubelet: others answer for it
		}
		total := have.DeepCopy()
		total.Add(want)
		if total.Cmp(all) <= 0 {
			continue
		}
		if name == v1.ResourceCPU {
			return outOf("cpu", want.MilliValue(), have.MilliValue(), all.MilliValue())
		}
		return outOf(string(name), want.Value(), have.Value(), all.Value())
	}
	return nil
}

func outOf(name string, requested, used, capacity int64) *pod.Verdict {
	return &pod.Verdict{Reason: "OutOf" + strings.ReplaceAll(name, "/", "_"), Message: fmt.Sprintf(
		"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, requested, used, capacity)}
}
