package worker

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// limits are a container's, with the huge pages of this machine.
func (w *worker) limits(p *v1.Pod, c *v1.Container) runtime.Resources {
	res := podspec.Limits(p, c, w.Memory)
	res.Hugepages = podspec.ContainerHugepages(p, c, w.PageSizes)
	return res
}

// podLimits are those of the pod's cgroup.
func (w *worker) podLimits(p *v1.Pod) runtime.Resources {
	res := podspec.PodLimits(p)
	res.Hugepages = podspec.PodHugepages(p, w.PageSizes)
	return res
}
