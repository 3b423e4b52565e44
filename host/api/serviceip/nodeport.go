package serviceip

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// wantsNodePorts tells whether a service is given node ports that it does not ask for.
func wantsNodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort ||
		s.Spec.Type == corev1.ServiceTypeLoadBalancer && ptr.Deref(s.Spec.AllocateLoadBalancerNodePorts, true)
}

func wantsHealthPort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// keepNodePorts fills in those that ports had, by the ports' names, unless another
// port has them now.
func keepNodePorts(ports, old []corev1.ServicePort) {
	had := map[string]int32{}
	for _, p := range old {
		had[p.Name] = p.NodePort
	}
	asked := slices.Clone(ports)
	for i := range ports {
		p := &ports[i]
		if p.NodePort == 0 && !hasPort(asked, had[p.Name]) {
			p.NodePort = had[p.Name]
		}
	}
}

func hasPort(ports []corev1.ServicePort, port int32) bool {
	return slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return p.NodePort == port })
}

func (g *grant) nodePorts() {
	spec := &g.service.Spec
	if spec.Type != corev1.ServiceTypeNodePort && spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	path := field.NewPath("spec", "ports")
	if g.old == nil {
		g.newNodePorts(path)
	} else {
		g.changeNodePorts(path)
	}
	if !wantsHealthPort(g.service) {
		return
	}
	path = field.NewPath("spec", "healthCheckNodePort")
	switch {
	case spec.HealthCheckNodePort == 0:
		spec.HealthCheckNodePort = g.somePort(path)
	case g.old == nil || g.old.Spec.HealthCheckNodePort != spec.HealthCheckNodePort:
		g.port(path, spec.HealthCheckNodePort)
	}
}

// newNodePorts gives a new service's ports of one number, such as 53 of TCP and of
// UDP, one node port: Kubernetes' initNodePorts.
func (g *grant) newNodePorts(path *field.Path) {
	ports := g.service.Spec.Ports
	by := map[int32]int32{}
	for i := range ports {
		p, at := &ports[i], path.Index(i).Child("nodePort")
		if p.NodePort == 0 && !wantsNodePorts(g.service) {
			continue
		}
		shared := by[p.Port]
		switch {
		case shared == 0:
			if p.NodePort = askedFor(ports, p.Port); p.NodePort == 0 {
				p.NodePort = g.somePort(at)
			} else {
				g.port(at, p.NodePort)
			}
			by[p.Port] = p.NodePort
		case p.NodePort == 0:
			p.NodePort = shared
		case p.NodePort != shared:
			g.port(at, p.NodePort)
		}
	}
}

// askedFor is the node port that the first port of a number asks for.
func askedFor(ports []corev1.ServicePort, number int32) int32 {
	for _, p := range ports {
		if p.Port == number && p.NodePort != 0 {
			return p.NodePort
		}
	}
	return 0
}

// changeNodePorts gives a service's ports those that they lack: Kubernetes'
// updateNodePorts.
func (g *grant) changeNodePorts(path *field.Path) {
	ports := g.service.Spec.Ports
	taken := map[int32]bool{}
	for i := range ports {
		p, at := &ports[i], path.Index(i).Child("nodePort")
		switch {
		case p.NodePort == 0 && wantsNodePorts(g.service):
			p.NodePort = g.somePort(at)
		case p.NodePort != 0 && !taken[p.NodePort] && !hasPort(g.old.Spec.Ports, p.NodePort):
			g.port(at, p.NodePort)
			taken[p.NodePort] = true
		}
	}
}

func (g *grant) take(port int32) {
	g.given[port] = time.Now()
	g.ports = append(g.ports, port)
}

func (g *grant) somePort(path *field.Path) int32 {
	port, ok := g.freePort()
	if !ok {
		g.refuse(field.InternalError(path, fmt.Errorf("failed to allocate a nodePort: range is full")))
		return 0
	}
	g.take(port)
	return port
}

// port takes the node port that the service asks for. What the service had for
// something else is given up only by the change, so it is not free.
func (g *grant) port(path *field.Path, port int32) {
	switch {
	case port < g.ranges.First, port > g.ranges.Last:
		g.refuse(field.Invalid(path, port, fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", g.ranges.First, g.ranges.Last)))
	case g.usedPort(port):
		g.refuse(field.Invalid(path, port, "provided port is already allocated"))
	default:
		g.take(port)
	}
}
