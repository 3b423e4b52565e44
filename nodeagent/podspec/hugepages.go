package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	componentresource "k8s.io/component-helpers/resource"
)

// ContainerHugepages are the limits of a container for each size of huge page
// that the machine has; what it does not ask for is 0. Those of the pod count
// where the container says nothing.
func ContainerHugepages(p *v1.Pod, c *v1.Container, sizes []int64) map[string]int64 {
	lists := []v1.ResourceList{c.Resources.Limits}
	if p.Spec.Resources != nil {
		lists = append([]v1.ResourceList{p.Spec.Resources.Limits}, lists...)
	}
	return hugepages(sizes, lists...)
}

// PodHugepages are those of the pod's cgroup.
func PodHugepages(p *v1.Pod, sizes []int64) map[string]int64 {
	return hugepages(sizes, componentresource.PodRequests(p, componentresource.PodResourcesOptions{}))
}

// hugepages gives bytes by size in the kernel's words; later lists count.
func hugepages(sizes []int64, lists ...v1.ResourceList) map[string]int64 {
	if len(sizes) == 0 {
		return nil
	}
	out := make(map[string]int64, len(sizes))
	for _, size := range sizes {
		name := kernelSize(size)
		out[name] = 0
		for _, list := range lists {
			for key, q := range list {
				if asked, ok := pageSize(string(key), v1.ResourceHugePagesPrefix); ok && asked == size {
					out[name] = q.Value()
				}
			}
		}
	}
	return out
}

// kernelSize names a size as cgroup files do: 64KB, 2MB, 1GB.
func kernelSize(size int64) string {
	units, i := []string{"B", "KB", "MB", "GB", "TB", "PB"}, 0
	for size >= 1024 && i < len(units)-1 {
		size, i = size/1024, i+1
	}
	return fmt.Sprintf("%d%s", size, units[i])
}

// pageSize reads the size that a resource or a medium names.
func pageSize(name, prefix string) (int64, bool) {
	text, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() <= 0 {
		return 0, false
	}
	return q.Value(), true
}

// IsHugepages says whether an emptyDir's medium is of huge pages.
func IsHugepages(medium v1.StorageMedium) bool {
	return medium == v1.StorageMediumHugePages || strings.HasPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
}

// MediumPageSize is the size of the pages of a medium of huge pages: one that
// the pod requests, and the only one if the medium names none.
func MediumPageSize(p *v1.Pod, medium v1.StorageMedium) (int64, error) {
	want, named := pageSize(string(medium), string(v1.StorageMediumHugePagesPrefix))
	if medium != v1.StorageMediumHugePages && !named {
		return 0, fmt.Errorf("medium %s names no size of a page", medium)
	}
	var found int64
	for size := range requestedSizes(p) {
		switch {
		case named && size == want:
			return want, nil
		case named:
		case found != 0 && found != size:
			return 0, fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
		default:
			found = size
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
	}
	return found, nil
}

// requestedSizes are those of the huge pages that pod or containers request.
func requestedSizes(p *v1.Pod) map[int64]bool {
	var lists []v1.ResourceList
	if p.Spec.Resources != nil {
		lists = append(lists, p.Spec.Resources.Requests)
	}
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			lists = append(lists, containers[i].Resources.Requests)
		}
	}
	out := map[int64]bool{}
	for _, list := range lists {
		for name := range list {
			if size, ok := pageSize(string(name), v1.ResourceHugePagesPrefix); ok {
				out[size] = true
			}
		}
	}
	return out
}
