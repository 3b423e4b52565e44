package invent

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// placed makes up a pod that is bound, has ended, or has room made for it.
func (i *inventor) placed(n int) *v1.Pod {
	p := i.pod(fmt.Sprintf("p%02d", n))
	p.Status.Phase = v1.PodRunning
	switch {
	case i.has("nominated"):
		p.Status.Phase, p.Status.NominatedNodeName = v1.PodPending, i.nodeName()
		return p
	case i.has("terminating"):
		p.DeletionTimestamp = &metav1.Time{Time: epoch}
	case i.chance(0.03):
		p.Status.Phase = one(i, v1.PodSucceeded, v1.PodFailed)
	}
	p.Spec.NodeName = i.nodeName()
	if i.chance(0.02) {
		p.Spec.NodeName = "gone"
	}
	if i.has("resize") {
		i.resize(p)
	}
	return p
}

// pending makes up a pod to ask about.
func (i *inventor) pending(n int) *v1.Pod {
	p := i.pod(fmt.Sprintf("new%d", n))
	p.Status.Phase = v1.PodPending
	if i.has("nodename") {
		p.Spec.NodeName = one(i, i.nodeName(), i.nodeName(), "elsewhere")
	}
	return p
}

func (i *inventor) pod(name string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: one(i, spaces...), UID: types.UID(name),
		CreationTimestamp: metav1.Time{Time: epoch}, Labels: i.podLabels(),
	}}
	p.Spec = v1.PodSpec{
		SchedulerName: v1.DefaultSchedulerName, RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSClusterFirst,
		Priority: ptr.To(one(i, int32(0), 0, 10)), TerminationGracePeriodSeconds: ptr.To(int64(30)),
		EnableServiceLinks: ptr.To(true), SecurityContext: &v1.PodSecurityContext{},
	}
	for n := 1 + i.IntN(2); len(p.Spec.Containers) < n; {
		p.Spec.Containers = append(p.Spec.Containers, i.container(fmt.Sprintf("c%d", len(p.Spec.Containers))))
	}
	onlyOnce(p.Spec.Containers)
	for i.has("init") && len(p.Spec.InitContainers) < 3 {
		c := i.container(fmt.Sprintf("i%d", len(p.Spec.InitContainers)))
		c.Ports = nil
		if i.chance(0.5) {
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	i.amounts(p)
	i.tolerations(p)
	i.affinity(p)
	i.spread(p)
	i.volumes(p)
	i.own(p)
	return p
}

// onlyOnce drops host ports that the pod would take twice.
func onlyOnce(containers []v1.Container) {
	seen := map[string]bool{}
	for n := range containers {
		c := &containers[n]
		c.Ports = slices.DeleteFunc(c.Ports, func(p v1.ContainerPort) bool {
			key := fmt.Sprint(p.Protocol, p.HostIP, p.HostPort)
			again := seen[key] && p.HostPort != 0
			seen[key] = true
			return again
		})
	}
}

func (i *inventor) podLabels() map[string]string {
	labels := map[string]string{"app": one(i, "web", "db", "job")}
	if i.chance(0.6) {
		labels["ver"] = one(i, "1", "2")
	}
	if i.chance(0.1) {
		delete(labels, "app")
	}
	return labels
}

func (i *inventor) container(name string) v1.Container {
	c := v1.Container{
		Name: name, Image: one(i, "nginx", "nginx:latest", "docker.io/library/nginx:latest", "registry:5000/big", "registry:5000/big:v1",
			"registry:5000/big@sha256:"+digest, "small:v1", "unknown:v1"),
		ImagePullPolicy: v1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log",
		TerminationMessagePolicy: v1.TerminationMessageReadFile, Resources: i.requirements(),
	}
	for i.has("port") && len(c.Ports) < 2 {
		port := one(i, int32(80), 443, 8080)
		c.Ports = append(c.Ports, v1.ContainerPort{
			ContainerPort: port, HostPort: one(i, 0, port, port, port), HostIP: one(i, "", "", "0.0.0.0", "127.0.0.1", "10.0.0.1"),
			Protocol: one(i, v1.ProtocolTCP, v1.ProtocolTCP, v1.ProtocolUDP),
		})
	}
	return c
}

// requirements of a container: requests, and limits that are no smaller.
func (i *inventor) requirements() (r v1.ResourceRequirements) {
	r.Requests, r.Limits = v1.ResourceList{}, v1.ResourceList{}
	if i.chance(0.8) {
		r.Requests[v1.ResourceCPU] = amount(i, "0", "100m", "250m", "1", "1500u")
	}
	if i.chance(0.8) {
		r.Requests[v1.ResourceMemory] = amount(i, "0", "64Mi", "500M", "1Gi", "1500m")
	}
	if i.chance(0.2) {
		r.Requests[v1.ResourceEphemeralStorage] = amount(i, "1Gi", "30Gi")
	}
	for _, name := range scalars {
		if i.has("scalar") {
			q := amount(i, "0", "1", "2")
			r.Requests[name], r.Limits[name] = q, q
		}
	}
	return r
}

// amounts that belong to the pod as a whole.
func (i *inventor) amounts(p *v1.Pod) {
	if i.has("overhead") {
		p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: amount(i, "50m", "1"), v1.ResourceMemory: amount(i, "32Mi")}
	}
	if !i.has("podlevel") {
		return
	}
	requests := v1.ResourceList{}
	if i.chance(0.8) {
		requests[v1.ResourceCPU] = amount(i, "3", "5")
	}
	if i.chance(0.5) {
		requests[v1.ResourceMemory] = amount(i, "4Gi")
	}
	p.Spec.Resources = &v1.ResourceRequirements{Requests: requests}
}

// resize makes a bound pod one whose amounts have been changed while it runs.
func (i *inventor) resize(p *v1.Pod) {
	for _, c := range p.Spec.Containers {
		now := v1.ResourceList{v1.ResourceCPU: amount(i, "50m", "2"), v1.ResourceMemory: amount(i, "32Mi", "2Gi")}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, AllocatedResources: now, Resources: &v1.ResourceRequirements{Requests: now.DeepCopy()},
		})
	}
	if i.chance(0.3) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
			Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonInfeasible,
		})
	}
}

func (i *inventor) tolerations(p *v1.Pod) {
	for i.has("taint") && len(p.Spec.Tolerations) < 3 {
		t := v1.Toleration{
			Key: fmt.Sprint(one(i, "kept", "gpu", "node.kubernetes.io/memory-pressure"), "-", i.IntN(3)), Operator: v1.TolerationOpEqual,
			Value:  one(i, "", "a", "b"),
			Effect: one(i, "", v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute),
		}
		if i.chance(0.4) {
			t.Operator, t.Value = v1.TolerationOpExists, ""
			if i.chance(0.2) {
				t.Key = ""
			}
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	}
	if i.has("unschedulable") {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists})
	}
}
