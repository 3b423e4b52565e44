package reach

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/service"
)

// Service is what a node does with packets to one.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Type      string `json:"type"`
	Node      string `json:"node"`
	// Notes say what holds of all of it.
	Notes     []string   `json:"notes,omitempty"`
	Fronts    []Front    `json:"fronts"`
	Endpoints []Endpoint `json:"endpoints"`
	// Missing are the pods that are meant and are no endpoints.
	Missing []Missing `json:"missing,omitempty"`
}

// Front is an address, port and protocol. An address that is empty stands for the
// node's own.
type Front struct {
	Address  string `json:"address,omitempty"`
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
	Target
	// Outside is for those who are no pods and not this node, if that is another.
	Outside *Target  `json:"outside,omitempty"`
	Sources []string `json:"sources,omitempty"`
}

// Target is what becomes of a connection: Verdict is Forward, Reject or Drop.
type Target struct {
	Verdict    string   `json:"verdict"`
	Backends   []string `json:"backends,omitempty"`
	Affinity   string   `json:"affinity,omitempty"`
	KeepSource bool     `json:"keepSource,omitempty"`
}

// Endpoint is one of the service's slices.
type Endpoint struct {
	Address string `json:"address"`
	Pod     string `json:"pod,omitempty"`
	Node    string `json:"node,omitempty"`
	Answers bool   `json:"answers"`
	Why     string `json:"why,omitempty"`
}

// Missing is a pod that the selector means.
type Missing struct {
	Pod string `json:"pod"`
	Why string `json:"why"`
}

var protocolNames = map[forward.Protocol]string{forward.TCP: "TCP", forward.UDP: "UDP", forward.SCTP: "SCTP"}

// OfService works out a service's. Pods are those of its namespace.
func OfService(svc *v1.Service, slicesOf []*discoveryv1.EndpointSlice, pods []*v1.Pod, node service.Node) *Service {
	out := &Service{Namespace: svc.Namespace, Name: svc.Name, Type: string(svc.Spec.Type), Node: node.Name, Fronts: []Front{}, Endpoints: []Endpoint{}}
	elements := service.Of(svc, slicesOf, node)
	answers := map[netip.AddrPort]bool{}
	for f, e := range elements.Fronts {
		out.Fronts = append(out.Fronts, front(f, e))
		targets := []*forward.Target{&e.Inside}
		if e.Outside != nil {
			targets = append(targets, e.Outside)
		}
		for _, t := range targets {
			for _, b := range t.Backends {
				answers[b] = true
			}
		}
	}
	slices.SortFunc(out.Fronts, func(a, b Front) int {
		return cmp.Or(-cmp.Compare(len(a.Address), len(b.Address)), strings.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port), strings.Compare(a.Protocol, b.Protocol))
	})
	headless := svc.Spec.ClusterIP == v1.ClusterIPNone
	switch {
	case svc.Spec.Type == v1.ServiceTypeExternalName:
		out.Notes = append(out.Notes, "its name is an alias of "+svc.Spec.ExternalName+"; no packet is forwarded")
	case headless:
		out.Notes = append(out.Notes, "it is headless: its name resolves to the endpoints themselves; no packet is forwarded")
	case len(service.ClusterIPs(svc)) == 0:
		out.Notes = append(out.Notes, "it has no cluster address yet")
	case len(svc.Spec.Ports) == 0:
		out.Notes = append(out.Notes, "it has no ports")
	}
	out.balancer(svc)
	if len(svc.Spec.Selector) == 0 && svc.Spec.Type != v1.ServiceTypeExternalName {
		out.Notes = append(out.Notes, "it has no selector: its EndpointSlices are somebody else's to make")
	}
	known := map[string]bool{}
	for _, s := range slicesOf {
		for i := range s.Endpoints {
			out.endpoints(s, &s.Endpoints[i], svc, answers, headless, node, known)
		}
	}
	slices.SortFunc(out.Endpoints, func(a, b Endpoint) int { return strings.Compare(a.Address, b.Address) })
	out.Endpoints = slices.Compact(out.Endpoints)
	out.missing(svc, pods, known)
	return out
}

func front(f forward.Front, e *forward.Entry) Front {
	out := Front{Port: f.Port, Protocol: protocolNames[f.Protocol], Target: target(&e.Inside)}
	if !f.Addr.IsUnspecified() {
		out.Address = f.Addr.String()
	}
	if e.Outside != nil {
		outside := target(e.Outside)
		out.Outside = &outside
	}
	for _, s := range e.Sources {
		out.Sources = append(out.Sources, s.String())
	}
	return out
}

func target(t *forward.Target) Target {
	out := Target{Verdict: []string{"Forward", "Reject", "Drop"}[t.Verdict], KeepSource: t.KeepSource}
	for _, b := range t.Backends {
		out.Backends = append(out.Backends, b.String())
	}
	if t.Affinity > 0 {
		out.Affinity = t.Affinity.String()
	}
	return out
}

// balancer notes who answers at a load balancer's addresses, or why there are none.
func (r *Service) balancer(svc *v1.Service) {
	if svc.Spec.Type != v1.ServiceTypeLoadBalancer {
		return
	}
	if len(svc.Status.LoadBalancer.Ingress) == 0 {
		r.Notes = append(r.Notes, "no load balancer has given it an address: "+noBalancer(svc))
		return
	}
	if by := svc.Annotations[service.AnnouncedBy]; by != "" {
		var texts []string
		for _, a := range service.LoadBalancers(svc) {
			texts = append(texts, a.String())
		}
		r.Notes = append(r.Notes, "node "+by+" announces "+strings.Join(texts, ", "))
	}
}

func noBalancer(svc *v1.Service) string {
	if class := svc.Spec.LoadBalancerClass; class != nil {
		return "one of class " + *class + " is to"
	}
	return "its Events say why, unless berth host was started with --load-balancers none"
}

// endpoints adds one of a slice: with each port of it.
func (r *Service) endpoints(s *discoveryv1.EndpointSlice, e *discoveryv1.Endpoint, svc *v1.Service, answers map[netip.AddrPort]bool, headless bool, node service.Node, known map[string]bool) {
	out := Endpoint{}
	if e.NodeName != nil {
		out.Node = *e.NodeName
	}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		out.Pod = e.TargetRef.Name
		known[out.Pod] = true
	}
	if len(e.Addresses) == 0 {
		return
	}
	addr, err := netip.ParseAddr(e.Addresses[0])
	if err != nil {
		out.Address, out.Why = e.Addresses[0], "this is no address"
		r.Endpoints = append(r.Endpoints, out)
		return
	}
	out.Why = state(e)
	if len(s.Ports) == 0 {
		out.Address, out.Why = addr.String(), cmp.Or(out.Why, "its slice has no ports")
		r.Endpoints = append(r.Endpoints, out)
	}
	for i := range s.Ports {
		port := s.Ports[i].Port
		if port == nil {
			continue
		}
		one := out
		at := netip.AddrPortFrom(addr, uint16(*port))
		one.Address = at.String()
		if one.Answers = answers[at] || headless && out.Why == ""; one.Answers {
			one.Why = ""
		} else {
			one.Why = cmp.Or(one.Why, passedBy(e, svc, one.Node == node.Name))
		}
		r.Endpoints = append(r.Endpoints, one)
	}
}

// passedBy says why a node does not use an endpoint that is ready.
func passedBy(e *discoveryv1.Endpoint, svc *v1.Service, here bool) string {
	policy := svc.Spec.InternalTrafficPolicy
	switch {
	case policy != nil && *policy == v1.ServiceInternalTrafficPolicyLocal && !here:
		return "it is on another node, and internalTrafficPolicy is Local"
	case e.Hints != nil && len(e.Hints.ForZones)+len(e.Hints.ForNodes) > 0:
		return "its hints are for other nodes or zones"
	}
	return "its port or family is none of the service's"
}

// state says what keeps an endpoint from being used.
func state(e *discoveryv1.Endpoint) string {
	is := func(c *bool, unset bool) bool { return c == nil && unset || c != nil && *c }
	switch ready, terminating := is(e.Conditions.Ready, true), is(e.Conditions.Terminating, false); {
	case ready:
		return ""
	case terminating:
		return "its pod is ending"
	}
	return "its pod is not ready"
}

// missing adds the pods that are meant and have no endpoint.
func (r *Service) missing(svc *v1.Service, pods []*v1.Pod, known map[string]bool) {
	if len(svc.Spec.Selector) == 0 {
		return
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	meant := 0
	for _, p := range pods {
		if p.Namespace != svc.Namespace || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		meant++
		if known[p.Name] {
			continue
		}
		why := "its endpoint is not written yet"
		switch {
		case p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed:
			why = "it has ended"
		case p.Spec.NodeName == "":
			why = "it is on no node: berth explain pod " + p.Name
		case p.Status.PodIP == "":
			why = "it has no address yet"
		}
		r.Missing = append(r.Missing, Missing{p.Name, why})
	}
	if meant == 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("no pod of namespace %s has its labels: %s", svc.Namespace, selector))
	}
}
