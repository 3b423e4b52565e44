package controller

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelpers "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/host/store"
)

// Usage is what a pod's containers used over a window that ended at a time.
type Usage struct {
	Time       time.Time
	Window     time.Duration
	Containers map[string]v1.ResourceList
}

// podUsage is the fact "pod.usage".
func (f *facts) podUsage(o store.Object) (json.RawMessage, error) {
	pod, ok := o.(*v1.Pod)
	if !ok || f.usage == nil {
		return nil, nil
	}
	used := f.usage(pod)
	if used == nil {
		return nil, nil
	}
	containers := map[string]map[v1.ResourceName]int64{}
	for name, list := range used.Containers {
		containers[name] = thousandths(list)
	}
	return json.Marshal(map[string]any{"time": used.Time.UnixNano(), "window": used.Window.Nanoseconds(), "containers": containers})
}

// thousandths are the quantities of CPU and memory.
func thousandths(list v1.ResourceList) map[v1.ResourceName]int64 {
	out := map[v1.ResourceName]int64{}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := list[name]; ok {
			out[name] = q.MilliValue()
		}
	}
	return out
}

// requests are those of a container.
type requests struct {
	Name     string                    `json:"name"`
	Requests map[v1.ResourceName]int64 `json:"requests"`
}

// podRequests is the fact "pod.requests".
func podRequests(o store.Object) (json.RawMessage, error) {
	pod, ok := o.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	var fact struct {
		Containers []requests                `json:"containers"`
		Pod        map[v1.ResourceName]int64 `json:"pod,omitempty"`
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		fact.Containers = append(fact.Containers, requests{c.Name, thousandths(c.Resources.Requests)})
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			fact.Containers = append(fact.Containers, requests{c.Name, thousandths(c.Resources.Requests)})
		}
	}
	if resourcehelpers.IsPodLevelRequestsSet(pod) {
		fact.Pod = thousandths(resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{}))
	}
	return json.Marshal(fact)
}
