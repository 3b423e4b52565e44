package pod

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOS classes a pod by Kubernetes' rules: Guaranteed where each container's
// CPU and memory limits equal its requests, BestEffort where there are none.
func QOS(p *v1.Pod) v1.PodQOSClass {
	if p.Status.QOSClass != "" {
		return p.Status.QOSClass
	}
	any, guaranteed := false, true
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			res := &list[i].Resources
			for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
				request, limit := res.Requests[name], res.Limits[name]
				if !request.IsZero() || !limit.IsZero() {
					any = true
				}
				if limit.IsZero() || !equalOrUnset(request, limit, res.Requests, name) {
					guaranteed = false
				}
			}
		}
	}
	switch {
	case !any:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}

func equalOrUnset(request, limit resource.Quantity, requests v1.ResourceList, name v1.ResourceName) bool {
	if _, ok := requests[name]; !ok {
		return true
	}
	return request.Cmp(limit) == 0
}
