package node

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// IsExtended says whether a resource is one that Kubernetes itself knows nothing
// of: of a domain that is not its own.
func IsExtended(name v1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && !strings.Contains(domain, "kubernetes.io") && !strings.HasPrefix(domain, v1.DefaultResourceRequestsPrefix)
}

// keepExtended leaves the extended resources that somebody gave the node. As the
// kubelet has it, all there are may be given to pods.
func keepExtended(want *v1.NodeStatus, have v1.NodeStatus) {
	for name, q := range have.Capacity {
		if _, own := want.Capacity[name]; IsExtended(name) && !own {
			want.Capacity[name], want.Allocatable[name] = q.DeepCopy(), q.DeepCopy()
		}
	}
}
