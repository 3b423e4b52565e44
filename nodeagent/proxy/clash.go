package proxy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/service"
)

// A clash is a port of this machine that a Service and a pod have.
type clash struct {
	service types.NamespacedName
	pod     *v1.Pod
	// front is the Service's.
	front forward.Front
	// port is the pod's, and byPod says that it gets the connections.
	port  forward.Front
	byPod bool
}

// hostPorts are a pod's, as fronts.
func hostPorts(p *v1.Pod) (out []forward.Front) {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, port := range c.Ports {
			protocol, known := forward.ProtocolOf(string(port.Protocol))
			if port.HostPort == 0 || !known {
				continue
			}
			front := forward.Front{Port: uint16(port.HostPort), Protocol: protocol}
			if at, err := netip.ParseAddr(port.HostIP); err == nil && !at.IsUnspecified() {
				front.Addr = at.Unmap()
				out = append(out, front)
				continue
			}
			for _, any := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
				front.Addr = any
				out = append(out, front)
			}
		}
	}
	return out
}

// clashes are those of some pods with who has fronts, in order. The kernel looks
// for an address and a port first, then for a port of any address; a front that
// both have is the pod's, unless the pod has the machine's network: then it gets
// what the kernel forwards to nobody.
func clashes(pods []*v1.Pod, node service.Node, owners map[forward.Front]types.NamespacedName) (out []clash) {
	for _, p := range pods {
		for _, port := range hostPorts(p) {
			for _, front := range rivals(port, node.Addresses) {
				if owner, owned := owners[front]; owned {
					byPod := !p.Spec.HostNetwork && (front == port || front.Addr.IsUnspecified())
					out = append(out, clash{owner, p, front, port, byPod})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b clash) int { return cmp.Compare(a.key(), b.key()) })
	return slices.CompactFunc(out, func(a, b clash) bool { return a.key() == b.key() })
}

// rivals are the fronts by which connections to a pod's port may go elsewhere.
func rivals(port forward.Front, own []netip.Addr) []forward.Front {
	out := []forward.Front{port}
	at := func(a netip.Addr) {
		front := port
		front.Addr = a
		out = append(out, front)
	}
	switch {
	case port.Addr.IsUnspecified():
		for _, a := range own {
			if a.Is4() == port.Addr.Is4() {
				at(a)
			}
		}
	case port.Addr.Is4():
		at(netip.IPv4Unspecified())
	default:
		at(netip.IPv6Unspecified())
	}
	return out
}

// key tells clashes apart. That of both families is one.
func (c clash) key() string {
	front := fmt.Sprint(c.front.Addr)
	if c.front.Addr.IsUnspecified() {
		front = ""
	}
	return fmt.Sprint(c.service, c.pod.UID, c.front.Protocol, c.front.Port, front, c.byPod)
}

// tellClashes has who loses a port learn of it, once as long as it is so.
func (s *state) tellClashes() {
	now := map[string]bool{}
	for _, c := range s.tally.clashes(s.cfg.Ports(), s.node) {
		now[c.key()] = true
		if !s.told[c.key()] {
			s.tell(c)
		}
	}
	s.told = now
}

func (y *tally) clashes(pods []*v1.Pod, node service.Node) []clash {
	y.mu.Lock()
	defer y.mu.Unlock()
	return clashes(pods, node, y.owners)
}

func (s *state) tell(c clash) {
	const reason = "HostPortConflict"
	if !c.byPod {
		at := fmt.Sprint("port ", c.front.Port)
		if !c.front.Addr.IsUnspecified() {
			at = netip.AddrPortFrom(c.front.Addr, c.front.Port).String()
		}
		s.cfg.Recorder.Eventf(c.pod, v1.EventTypeWarning, reason, "Service %s has %s of node %s: connections to it go to the Service, not to the pod", c.service, at, s.node.Name)
		return
	}
	svc, err := s.cfg.Catalog.Services().Lister().Services(c.service.Namespace).Get(c.service.Name)
	if err != nil {
		return // it is gone
	}
	s.cfg.Recorder.Eventf(svc, v1.EventTypeWarning, reason, "port %d of node %s is a host port of pod %s/%s: connections to it go to the pod, not to the Service",
		c.front.Port, s.node.Name, c.pod.Namespace, c.pod.Name)
}
