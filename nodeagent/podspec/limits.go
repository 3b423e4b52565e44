package podspec

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

const cfsPeriod = 100_000

// Limits translates a container's resources; where it has no limit, its pod's holds.
// machine is the machine's memory in bytes, by which the OOM score of burstable pods is
// scaled.
func Limits(p *v1.Pod, c *v1.Container, machine int64) runtime.Resources {
	request, limit := c.Resources.Requests.Cpu().MilliValue(), limitOf(p, c, v1.ResourceCPU).MilliValue()
	if _, ok := c.Resources.Requests[v1.ResourceCPU]; !ok {
		request = limit
	}
	res := runtime.Resources{
		CPUShares: Shares(request), MemoryLimit: limitOf(p, c, v1.ResourceMemory).Value(), OOMScoreAdj: OOMScoreAdj(p, c, machine),
	}
	if limit > 0 {
		res.CPUPeriod = cfsPeriod
		res.CPUQuota = max(limit*cfsPeriod/1000, 1000)
	}
	return res
}

func limitOf(p *v1.Pod, c *v1.Container, name v1.ResourceName) *quantity.Quantity {
	q := c.Resources.Limits[name]
	if q.IsZero() && p.Spec.Resources != nil {
		q = p.Spec.Resources.Limits[name]
	}
	return &q
}

// Shares turns milli-CPU into cgroup v1 cpu.shares.
func Shares(milli int64) int64 { return min(max(milli*1024/1000, 2), 262144) }

// PodLimits sums what the pod's cgroup is held to; zero fields are unlimited
// because one of its containers is.
func PodLimits(p *v1.Pod) runtime.Resources {
	requests := resource.PodRequests(p, resource.PodResourcesOptions{})
	res := runtime.Resources{CPUShares: Shares(requests.Cpu().MilliValue())}
	if bounded(p, v1.ResourceCPU) {
		limits := resource.PodLimits(p, resource.PodResourcesOptions{})
		res.CPUPeriod, res.CPUQuota = cfsPeriod, max(limits.Cpu().MilliValue()*cfsPeriod/1000, 1000)
	}
	if bounded(p, v1.ResourceMemory) {
		limits := resource.PodLimits(p, resource.PodResourcesOptions{})
		res.MemoryLimit = limits.Memory().Value()
	}
	return res
}

func bounded(p *v1.Pod, name v1.ResourceName) bool {
	if p.Spec.Resources != nil {
		if q, ok := p.Spec.Resources.Limits[name]; ok && !q.IsZero() {
			return true
		}
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if q, ok := list[i].Resources.Limits[name]; !ok || q.IsZero() {
				return false
			}
		}
	}
	return true
}

// OOMScoreAdj says how soon the kernel kills a container when memory runs out:
// Guaranteed last, BestEffort first, between them by the share requested. What the pod
// requests beyond its containers is shared among them, and a sidecar goes no sooner than
// any regular container does.
func OOMScoreAdj(p *v1.Pod, c *v1.Container, machine int64) int {
	if p.Spec.PriorityClassName == "system-node-critical" || pod.QOS(p) == v1.PodQOSGuaranteed {
		return -997
	}
	if pod.QOS(p) == v1.PodQOSBestEffort || machine <= 0 {
		return 1000
	}
	request := c.Resources.Requests.Memory().Value()
	if sidecar(p, c) {
		least := slices.MinFunc(p.Spec.Containers, func(a, b v1.Container) int {
			return a.Resources.Requests.Memory().Cmp(*b.Resources.Requests.Memory())
		})
		request = max(request, least.Resources.Requests.Memory().Value())
	}
	return int(min(max(1000-1000*(request+spare(p))/machine, 3), 999))
}

func sidecar(p *v1.Pod, c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways &&
		slices.ContainsFunc(p.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name })
}

// spare is each container's part of the memory that the pod requests beyond them.
func spare(p *v1.Pod) int64 {
	if p.Spec.Resources == nil || p.Spec.Resources.Requests.Memory().IsZero() {
		return 0
	}
	theirs := resource.AggregateContainerRequests(p, resource.PodResourcesOptions{})
	beyond := p.Spec.Resources.Requests.Memory().Value() - theirs.Memory().Value()
	return beyond / int64(len(p.Spec.Containers)+len(p.Spec.InitContainers))
}

// ClassCgroup is the cgroup below the root of all pods of a QoS class; guaranteed
// ones lie beside the other classes.
func ClassCgroup(root string, class v1.PodQOSClass) string {
	path := root + "/kubepods"
	switch class {
	case v1.PodQOSBurstable:
		path += "/burstable"
	case v1.PodQOSBestEffort:
		path += "/besteffort"
	}
	return path
}

// CgroupParent is the pod's cgroup below the root: /kubepods/burstable/podUID.
func CgroupParent(root string, p *v1.Pod) string {
	return ClassCgroup(root, pod.QOS(p)) + "/pod" + string(p.UID)
}
