package reach

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/policy"
	"github.com/berth-dev/berth/nodeagent/service"
)

// Way is what becomes of a connection that a pod would begin.
type Way struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
	// Steps are what is passed on the way, as far as it leads.
	Steps []Step `json:"steps"`
	// Ends are who may answer.
	Ends []End `json:"ends,omitempty"`
	// Arrives: all ends do. StopsAt names the step where it does not get on.
	Arrives bool   `json:"arrives"`
	StopsAt string `json:"stopsAt,omitempty"`
}

// Step is Name, Service, Endpoints, Policy or Route.
type Step struct {
	Step string `json:"step"`
	Text string `json:"text"`
}

// End is an address that packets would go to.
type End struct {
	Address string `json:"address"`
	Pod     string `json:"pod,omitempty"`
	Node    string `json:"node,omitempty"`
	Arrives bool   `json:"arrives"`
	Why     string `json:"why,omitempty"`
	// RefusedBy are the policies that isolate a pod and none of which allows it,
	// as DIRECTION NAMESPACE/NAME.
	RefusedBy []string `json:"refusedBy,omitempty"`
}

// Destination is who is to be reached: a service, a pod or an address.
type Destination struct {
	Text     string // as it was asked
	Service  *v1.Service
	Slices   []*discoveryv1.EndpointSlice
	Pod      *v1.Pod
	Addr     netip.Addr
	Port     uint16
	Protocol forward.Protocol
}

// Cluster is what of it matters: pods and policies of the namespaces of both
// ends, and all namespaces and nodes.
type Cluster struct {
	Pods       []*v1.Pod
	Namespaces []*v1.Namespace
	Policies   []*networkingv1.NetworkPolicy
	Nodes      []*v1.Node
}

// OfPod works out the way from a pod.
func OfPod(from *v1.Pod, to Destination, c Cluster) *Way {
	w := &walk{Way: &Way{From: from.Namespace + "/" + from.Name, To: to.Text, Port: to.Port, Protocol: protocolNames[to.Protocol]}, from: from, to: to, cluster: c}
	if from.Status.PodIP == "" || from.Status.Phase != v1.PodRunning && from.Status.Phase != v1.PodPending {
		return w.stop("Pod", fmt.Sprintf("%s has no address: it is %s", w.From, cmp.Or(string(from.Status.Phase), "new")))
	}
	if stopped := w.name(); stopped != nil {
		return stopped
	}
	backends, stopped := w.backends()
	if stopped != nil {
		return stopped
	}
	w.ends(backends)
	return w.Way
}

type walk struct {
	*Way
	from    *v1.Pod
	to      Destination
	cluster Cluster
}

func (w *walk) pass(step, text string) { w.Steps = append(w.Steps, Step{step, text}) }

func (w *walk) stop(step, text string) *Way {
	w.pass(step, text)
	w.StopsAt = step
	return w.Way
}

// name says what the pod's resolver makes of a service's name.
func (w *walk) name() *Way {
	svc := w.to.Service
	if svc == nil {
		return nil
	}
	if p := w.from.Spec.DNSPolicy; p == v1.DNSDefault || p == v1.DNSNone || w.from.Spec.HostNetwork && p != v1.DNSClusterFirstWithHostNet {
		return w.stop("Name", fmt.Sprintf("the pod's dnsPolicy is %s: it does not ask the cluster's DNS, which alone knows %s", cmp.Or(p, v1.DNSClusterFirst), svc.Name))
	}
	switch {
	case svc.Spec.Type == v1.ServiceTypeExternalName:
		return w.stop("Name", "the name is an alias of "+svc.Spec.ExternalName+", which is outside the cluster")
	case svc.Spec.ClusterIP == v1.ClusterIPNone:
		w.pass("Name", "the service is headless: its name is its ready endpoints")
	default:
		w.pass("Name", fmt.Sprintf("%s.%s.svc is %s", svc.Name, svc.Namespace, svc.Spec.ClusterIP))
	}
	return nil
}

// backends are the addresses that packets go to, by the rules of the pod's node.
func (w *walk) backends() ([]netip.AddrPort, *Way) {
	switch {
	case w.to.Pod != nil:
		a, err := netip.ParseAddr(w.to.Pod.Status.PodIP)
		if err != nil {
			return nil, w.stop("Pod", w.to.Text+" has no address yet")
		}
		return []netip.AddrPort{netip.AddrPortFrom(a, w.to.Port)}, nil
	case w.to.Service == nil:
		return []netip.AddrPort{netip.AddrPortFrom(w.to.Addr, w.to.Port)}, nil
	case w.to.Service.Spec.ClusterIP == v1.ClusterIPNone:
		return w.headless()
	}
	ips := service.ClusterIPs(w.to.Service)
	if len(ips) == 0 {
		return nil, w.stop("Service", "the service has no address yet")
	}
	e := service.Of(w.to.Service, w.to.Slices, w.node()).Fronts[forward.Front{Addr: ips[0], Port: w.to.Port, Protocol: w.to.Protocol}]
	switch {
	case e == nil:
		return nil, w.stop("Service", fmt.Sprintf("the service has no port %d/%s: it refuses the connection; it has %s", w.to.Port, w.Protocol, portsOf(w.to.Service)))
	case e.Inside.Verdict == forward.Reject:
		return nil, w.stop("Endpoints", "nobody serves it now: the connection is refused; berth explain service "+w.to.Service.Name)
	case e.Inside.Verdict == forward.Drop:
		return nil, w.stop("Endpoints", "nobody serves it on node "+w.from.Spec.NodeName+", and its traffic policy is Local: packets are dropped")
	}
	w.pass("Service", fmt.Sprintf("node %s sends %s:%d to one of %d", w.from.Spec.NodeName, ips[0], w.to.Port, len(e.Inside.Backends)))
	return e.Inside.Backends, nil
}

func (w *walk) headless() ([]netip.AddrPort, *Way) {
	var out []netip.AddrPort
	for _, s := range w.to.Slices {
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; state(e) == "" && len(e.Addresses) > 0 {
				if a, err := netip.ParseAddr(e.Addresses[0]); err == nil {
					out = append(out, netip.AddrPortFrom(a, w.to.Port))
				}
			}
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	if out = slices.Compact(out); len(out) == 0 {
		return nil, w.stop("Endpoints", "the service is headless and has no ready endpoint: its name does not resolve; berth explain service "+w.to.Service.Name)
	}
	return out, nil
}

func portsOf(svc *v1.Service) string {
	var out []string
	for _, p := range svc.Spec.Ports {
		out = append(out, fmt.Sprintf("%d/%s", p.Port, cmp.Or(p.Protocol, v1.ProtocolTCP)))
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// node is the pod's, as its agent sees it.
func (w *walk) node() service.Node { return NodeOf(w.cluster.Nodes, w.from.Spec.NodeName) }

// NodeOf is what of a node matters to services.
func NodeOf(nodes []*v1.Node, name string) service.Node {
	out := service.Node{Name: name}
	for _, n := range nodes {
		if n.Name != name {
			continue
		}
		out.Zone = n.Labels[v1.LabelTopologyZone]
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == v1.NodeInternalIP {
				out.Addresses = append(out.Addresses, ip)
			}
		}
	}
	return out
}

// ends asks the policies of both sides about each address.
func (w *walk) ends(backends []netip.AddrPort) {
	book := policy.NewBook()
	for _, n := range w.cluster.Namespaces {
		book.PutNamespace(n.Name, n.Labels, true)
	}
	for _, p := range w.cluster.Policies {
		book.PutPolicy(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p)
	}
	by := map[netip.Addr]*v1.Pod{}
	for _, p := range append(slices.Clone(w.cluster.Pods), w.from) {
		own := policy.Of(p)
		if own == nil {
			continue
		}
		book.Put(string(p.UID), own, true)
		for _, a := range own.IPs {
			by[a] = p
		}
	}
	w.Arrives = true
	for _, b := range backends {
		e := w.end(book, by[b.Addr()], b)
		w.Ends = append(w.Ends, e)
		w.Arrives = w.Arrives && e.Arrives
	}
	if w.Arrives {
		w.pass("Policy", "policies let it through")
		return
	}
	w.StopsAt = "Policy"
	if !slices.ContainsFunc(w.Ends, func(e End) bool { return len(e.RefusedBy) > 0 }) {
		w.StopsAt = "Route"
	}
}

func (w *walk) end(book *policy.Book, pod *v1.Pod, at netip.AddrPort) End {
	out := End{Address: at.String(), Arrives: true}
	id := ""
	if pod != nil {
		id, out.Pod, out.Node = string(pod.UID), pod.Namespace+"/"+pod.Name, pod.Spec.NodeName
	}
	egress, ingress := book.Ask(policy.Connection{From: string(w.from.UID), To: id, FromAddr: w.source(at.Addr()), ToAddr: at.Addr(), Protocol: w.to.Protocol, Port: at.Port()})
	// What runs on a pod's own node it always reaches, and is reached from.
	if w.from.Spec.HostNetwork && out.Node == w.from.Spec.NodeName {
		return out
	}
	if !egress.Allowed {
		out.refuse("egress", w.from.Namespace, egress.Policies)
	}
	if !ingress.Allowed {
		out.refuse("ingress", pod.Namespace, ingress.Policies)
	}
	if out.Arrives && pod != nil && !w.ready(out.Node) {
		out.Arrives, out.Why = false, "its node "+out.Node+" is not ready"
	}
	return out
}

func (e *End) refuse(direction, namespace string, policies []string) {
	e.Arrives = false
	for _, p := range policies {
		e.RefusedBy = append(e.RefusedBy, direction+" "+namespace+"/"+p)
	}
	e.Why = "none of the policies that isolate it allows this"
}

// source is the pod's address of the same family.
func (w *walk) source(to netip.Addr) netip.Addr {
	for _, ip := range w.from.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil && a.Is4() == to.Is4() {
			return a
		}
	}
	return netip.Addr{}
}

// ready tells whether a node is; one that is not known is taken to be.
func (w *walk) ready(name string) bool {
	for _, n := range w.cluster.Nodes {
		if n.Name != name {
			continue
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady {
				return c.Status == v1.ConditionTrue
			}
		}
	}
	return true
}
