package snapshot

import (
	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
)

// NewPod derives from a pod what scheduling needs of it.
func NewPod(object *v1.Pod) *Pod {
	p := &Pod{Object: object, Ports: hostPorts(object), volumes: holdsVolumes(object)}
	p.Requests, p.NonZero, p.Weighed = requests(object)
	p.Hash = hashPod(p)
	p.ref = new(Ref)
	p.ref.pod.Store(p)
	return p
}

// Priority is the pod's priority, 0 where it has none.
func (p *Pod) Priority() int32 {
	if p.Object.Spec.Priority == nil {
		return 0
	}
	return *p.Object.Spec.Priority
}

// NeverPreempts says whether the pod makes no others go.
func (p *Pod) NeverPreempts() bool {
	policy := p.Object.Spec.PreemptionPolicy
	return policy != nil && *policy == v1.PreemptNever
}

// Same says whether another state of the pod is the same for scheduling.
func (p *Pod) Same(o *Pod) bool {
	return p.Hash == o.Hash && p.UID() == o.UID() &&
		(p.Object.DeletionTimestamp == nil) == (o.Object.DeletionTimestamp == nil)
}

// samePlaced is Same for a pod that has its node: what it asked of nodes, and
// its node's name in it, can't change any more and count for nobody.
func (p *Pod) samePlaced(o *Pod) bool {
	a, b := *p, *o
	a.Hash[affinityIndex], b.Hash[affinityIndex] = 0, 0
	return a.Same(&b)
}

// affinityIndex is the place of abi.PodAffinity in Pod.Hash.
const affinityIndex = 3

// Finished says whether a pod has ended, so that it holds nothing any more.
func Finished(object *v1.Pod) bool {
	return object.Status.Phase == v1.PodSucceeded || object.Status.Phase == v1.PodFailed
}

// requests sums what a pod asks for: real, with the defaults for scoring, and
// as it is weighed itself.
func requests(object *v1.Pod) (real, nonZero, weighed Resources) {
	if plain(object) {
		real, nonZero = containerRequests(object.Spec.Containers)
		return real, nonZero, nonZero
	}
	options := resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	list := resource.PodRequests(object, options)
	real = resourcesOf(list, MaxRequest)
	options.NonMissingContainerRequests = scoringDefaults(object, list)
	nonZero = resourcesOf(resource.PodRequests(object, options), MaxRequest)
	weighed = resourcesOf(resource.PodRequests(object, resource.PodResourcesOptions{
		SkipPodLevelResources: true, NonMissingContainerRequests: v1.ResourceList{v1.ResourceCPU: defaultCPU, v1.ResourceMemory: defaultMemory},
	}), MaxRequest)
	for _, r := range []*Resources{&nonZero, &weighed} {
		r.Scalars, r.EphemeralStorage, r.Pods = nil, 0, 1
	}
	real.Pods = 1
	return real, nonZero, weighed
}

// plain says whether the requests are just the sum of the containers'.
func plain(object *v1.Pod) bool {
	return len(object.Spec.InitContainers) == 0 && object.Spec.Resources == nil &&
		len(object.Spec.Overhead) == 0 && settled(object) && summable(object.Spec.Containers)
}

// settled says whether no container has, or was given, other resources than its
// spec asks for: then the spec is the most of the three. A pod that runs is
// nearly always settled.
func settled(object *v1.Pod) bool {
	for i := range object.Status.ContainerStatuses {
		s := &object.Status.ContainerStatuses[i]
		if s.Resources == nil {
			continue
		}
		for j := range object.Spec.Containers {
			c := &object.Spec.Containers[j]
			if c.Name == s.Name && !(sameRequests(c.Resources.Requests, s.Resources.Requests) && sameRequests(c.Resources.Requests, s.AllocatedResources)) {
				return false
			}
		}
	}
	return true
}

func sameRequests(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		other, ok := b[name]
		if !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// summable says whether the containers' requests are whole numbers each: others
// are summed up before they are rounded.
func summable(containers []v1.Container) bool {
	if len(containers) == 1 {
		return true
	}
	for i := range containers {
		for name, q := range containers[i].Resources.Requests {
			if _, ok := q.AsInt64(); ok {
				continue
			}
			whole := quantity.NewMilliQuantity(q.MilliValue(), quantity.DecimalSI)
			if name != v1.ResourceCPU || whole.Cmp(q) != 0 {
				return false
			}
		}
	}
	return true
}

func containerRequests(containers []v1.Container) (real, nonZero Resources) {
	for i := range containers {
		list := containers[i].Resources.Requests
		r := resourcesOf(list, MaxRequest)
		real = real.plus(&r)
		cpu, memory := r.MilliCPU, r.Memory
		if _, ok := list[v1.ResourceCPU]; !ok {
			cpu = DefaultMilliCPU
		}
		if _, ok := list[v1.ResourceMemory]; !ok {
			memory = DefaultMemory
		}
		nonZero.MilliCPU = saturated(nonZero.MilliCPU, cpu)
		nonZero.Memory = saturated(nonZero.Memory, memory)
	}
	real.Pods, nonZero.Pods = 1, 1
	return real, nonZero
}

// scoringDefaults are what containers without a request count as; with requests
// on the pod's level, only for what neither level states.
func scoringDefaults(object *v1.Pod, list v1.ResourceList) v1.ResourceList {
	defaults := v1.ResourceList{v1.ResourceCPU: defaultCPU, v1.ResourceMemory: defaultMemory}
	if !resource.IsPodLevelRequestsSet(object) {
		return defaults
	}
	for name := range defaults {
		if _, ok := list[name]; ok {
			delete(defaults, name)
		}
	}
	return defaults
}

// hostPorts lists the ports that a pod takes on its node, those of sidecars too.
func hostPorts(object *v1.Pod) []HostPort {
	var ports []HostPort
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			port := HostPort{IP: p.HostIP, Protocol: string(p.Protocol), Port: p.HostPort}
			if port.IP == "" {
				port.IP = "0.0.0.0"
			}
			if port.Protocol == "" {
				port.Protocol = string(v1.ProtocolTCP)
			}
			ports = append(ports, port)
		}
	}
	for i := range object.Spec.Containers {
		add(&object.Spec.Containers[i])
	}
	for i := range object.Spec.InitContainers {
		c := &object.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return ports
}

// holdsVolumes says whether the pod brings volumes that policies count by node.
func holdsVolumes(object *v1.Pod) bool {
	for i := range object.Spec.Volumes {
		v := &object.Spec.Volumes[i].VolumeSource
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.GCEPersistentDisk != nil ||
			v.AWSElasticBlockStore != nil || v.AzureDisk != nil || v.ISCSI != nil || v.RBD != nil || v.CSI != nil {
			return true
		}
	}
	return false
}

// bestEffort says whether no container and not the pod itself states CPU or memory.
func bestEffort(object *v1.Pod) bool {
	states := func(r *v1.ResourceRequirements) bool {
		for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
			for name, q := range list {
				if (name == v1.ResourceCPU || name == v1.ResourceMemory) && q.Sign() > 0 {
					return true
				}
			}
		}
		return false
	}
	if r := object.Spec.Resources; r != nil && states(r) {
		return false
	}
	for i := range object.Spec.Containers {
		if states(&object.Spec.Containers[i].Resources) {
			return false
		}
	}
	for i := range object.Spec.InitContainers {
		if states(&object.Spec.InitContainers[i].Resources) {
			return false
		}
	}
	return true
}
