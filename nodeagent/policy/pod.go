package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// Pod is what of a pod matters to policies.
type Pod struct {
	Namespace string
	Name      string
	Labels    map[string]string
	IPs       []netip.Addr
	// Ports are those of its containers that have a name.
	Ports []Port
}

// Port is one that has a name.
type Port struct {
	Name     string
	Number   uint16
	Protocol forward.Protocol
}

// Of gives a pod's; with nil, for one that has no network of its own, or has it
// no more.
func Of(p *v1.Pod) *Pod {
	if p.Spec.HostNetwork || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return nil
	}
	out := &Pod{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Ports: NamedPorts(&p.Spec)}
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			out.IPs = append(out.IPs, a.Unmap())
		}
	}
	return out
}

// NamedPorts are those of a pod's containers, and of the init containers that go on
// beside them.
func NamedPorts(spec *v1.PodSpec) (out []Port) {
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			protocol, known := forward.ProtocolOf(string(p.Protocol))
			if known && p.Name != "" && p.ContainerPort > 0 && p.ContainerPort <= 65535 {
				out = append(out, Port{p.Name, uint16(p.ContainerPort), protocol})
			}
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return out
}

func (p *Pod) equal(o *Pod) bool {
	return p.Namespace == o.Namespace && p.Name == o.Name && maps.Equal(p.Labels, o.Labels) &&
		slices.Equal(p.IPs, o.IPs) && slices.Equal(p.Ports, o.Ports)
}

// numbers are what a name stands for in a pod.
func (p *Pod) numbers(name string, protocol forward.Protocol) (out []uint16) {
	for _, has := range p.Ports {
		if has.Name == name && has.Protocol == protocol {
			out = append(out, has.Number)
		}
	}
	return out
}

// String is namespace/name.
func (p *Pod) String() string { return fmt.Sprintf("%s/%s", p.Namespace, p.Name) }
