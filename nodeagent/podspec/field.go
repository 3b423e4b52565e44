package podspec

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/fieldpath"

	"github.com/berth-dev/berth/nodeagent/pod"
)

// Field gives the text of a downward API field such as metadata.name,
// metadata.labels['app'] or status.podIP.
func Field(p *v1.Pod, path string, facts Facts) (string, error) {
	switch path {
	case "spec.nodeName":
		return p.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(facts.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(facts.HostIPs, ","), nil
	case "status.podIP":
		return first(facts.PodIPs), nil
	case "status.podIPs":
		return strings.Join(facts.PodIPs, ","), nil
	case "status.phase":
		return string(p.Status.Phase), nil
	case "status.qosClass":
		return string(pod.QOS(p)), nil
	}
	text, err := fieldpath.ExtractFieldPathAsString(p, path)
	if err != nil {
		return "", fmt.Errorf("field %q: %w", path, err)
	}
	return text, nil
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// Resource gives a container's request or limit, divided and rounded up. A
// limit that is not set is the pod's as a whole, or the node's allocatable.
func Resource(p *v1.Pod, c *v1.Container, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	if ref.ContainerName != "" {
		found := containerByName(p, ref.ContainerName)
		if found == nil {
			return "", fmt.Errorf("resource %q: the pod has no container %q", ref.Resource, ref.ContainerName)
		}
		c = found
	}
	if c == nil {
		return "", fmt.Errorf("resource %q: containerName is missing", ref.Resource)
	}
	kind, name, ok := strings.Cut(ref.Resource, ".")
	if !ok || kind != "limits" && kind != "requests" {
		return "", fmt.Errorf("resource %q: want limits.… or requests.…", ref.Resource)
	}
	list := c.Resources.Requests
	if kind == "limits" {
		list = c.Resources.Limits
	}
	q, set := list[v1.ResourceName(name)]
	if kind == "limits" && (!set || q.IsZero()) {
		q = defaultLimit(p, v1.ResourceName(name), allocatable)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if v1.ResourceName(name) == v1.ResourceCPU {
		return strconv.FormatInt(int64(math.Ceil(float64(q.MilliValue())/float64(divisor.MilliValue()))), 10), nil
	}
	return strconv.FormatInt(int64(math.Ceil(float64(q.Value())/float64(divisor.Value()))), 10), nil
}

// defaultLimit is what a container without a limit of its own is held to: of huge pages
// to none, since nothing gives it any that it does not ask for.
func defaultLimit(p *v1.Pod, name v1.ResourceName, allocatable v1.ResourceList) resource.Quantity {
	if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
		return resource.Quantity{}
	}
	if p.Spec.Resources != nil && (name == v1.ResourceCPU || name == v1.ResourceMemory) {
		if q := p.Spec.Resources.Limits[name]; !q.IsZero() {
			return q
		}
	}
	return allocatable[name]
}

func containerByName(p *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
