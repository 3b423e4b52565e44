package serviceip

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Admission gives addresses to services as they are created and changed.
type Admission struct{ allocator }

var _ registry.Admission = (*Admission)(nil)

// New makes the admission over the services of a store. A zero part of ranges
// is its default.
func New(st *store.Store, ranges Ranges) *Admission {
	if !ranges.Services.IsValid() {
		ranges.Services = Defaults.Services
	}
	if ranges.First == 0 {
		ranges.First, ranges.Last = Defaults.First, Defaults.Last
	}
	return &Admission{allocator{ranges: ranges, store: st, given: map[any]time.Time{}}}
}

// Validate implements registry.Admission.
func (*Admission) Validate(context.Context, *registry.Attributes) error { return nil }

// Admit implements registry.Admission.
func (a *Admission) Admit(_ context.Context, at *registry.Attributes) error {
	if at.Resource != corev1.Resource("services") || at.Subresource != "" || (at.Operation != registry.Create && at.Operation != registry.Update) {
		return nil
	}
	s, ok := at.Object.(*corev1.Service)
	if !ok {
		return nil
	}
	var old *corev1.Service
	if at.Old != nil {
		old = at.Old.(*corev1.Service)
		keep(s, old)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	used, err := a.taken(store.Key{Namespace: s.Namespace, Name: s.Name})
	if err != nil {
		return err
	}
	g := &grant{allocator: &a.allocator, service: s, old: old, used: used}
	g.address()
	g.nodePorts()
	if len(g.errs) > 0 {
		g.giveBack()
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, g.errs)
	}
	at.OnRollback(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		g.giveBack()
	})
	return nil
}

// keep fills in what an update leaves out: clients that read a service from a
// manifest don't know its addresses.
func keep(s, old *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeExternalName || old.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if s.Spec.ClusterIP == "" && len(s.Spec.ClusterIPs) == 0 {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	}
	if s.Spec.IPFamilyPolicy == nil {
		s.Spec.IPFamilyPolicy = old.Spec.IPFamilyPolicy
	}
	if len(s.Spec.IPFamilies) == 0 {
		s.Spec.IPFamilies = old.Spec.IPFamilies
	}
	if s.Spec.Type == corev1.ServiceTypeClusterIP {
		return
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		for _, had := range old.Spec.Ports {
			if p.NodePort == 0 && had.Port == p.Port && had.Protocol == p.Protocol {
				p.NodePort = had.NodePort
			}
		}
	}
	if s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

// grant is what one service gets.
type grant struct {
	*allocator
	service, old *corev1.Service
	used         map[any]bool
	taken        []any
	errs         field.ErrorList
}

func (g *grant) take(what any) {
	g.used[what] = true
	g.given[what] = time.Now()
	g.taken = append(g.taken, what)
}

func (g *grant) giveBack() {
	for _, what := range g.taken {
		delete(g.given, what)
	}
}

func (g *grant) address() {
	spec := &g.service.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	path := field.NewPath("spec", "clusterIPs")
	switch spec.ClusterIP {
	case corev1.ClusterIPNone:
	case "":
		ip, ok := g.freeAddress(g.used)
		if !ok {
			g.errs = append(g.errs, field.InternalError(path, fmt.Errorf("failed to allocate a serviceIP: range is full")))
			return
		}
		spec.ClusterIP = ip.String()
		g.take(ip)
	default:
		g.wanted(path, spec.ClusterIP)
	}
	if len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// wanted takes the address that the service asks for.
func (g *grant) wanted(path *field.Path, text string) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return // validation says what is wrong with it
	}
	refuse := func(why string) {
		g.errs = append(g.errs, field.Invalid(path, []string{text}, fmt.Sprintf("failed to allocate IP %s: %s", text, why)))
	}
	switch {
	case g.old != nil && holds(g.old)[ip]:
	case !g.ranges.Services.Contains(ip):
		refuse(fmt.Sprintf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", text, g.ranges.Services))
	case g.used[ip]:
		refuse("provided IP is already allocated")
	default:
		g.take(ip)
	}
}

func (g *grant) nodePorts() {
	spec := &g.service.Spec
	wants := spec.Type == corev1.ServiceTypeNodePort ||
		spec.Type == corev1.ServiceTypeLoadBalancer && ptr.Deref(spec.AllocateLoadBalancerNodePorts, true)
	path := field.NewPath("spec", "ports")
	shared := map[int32]bool{} // a port for TCP and UDP may have one number
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.NodePort == 0 && wants && spec.Type != corev1.ServiceTypeClusterIP {
			p.NodePort = g.somePort(path.Index(i).Child("nodePort"))
			continue
		}
		if p.NodePort != 0 && !shared[p.NodePort] && spec.Type != corev1.ServiceTypeClusterIP {
			g.port(path.Index(i).Child("nodePort"), p.NodePort)
		}
		shared[p.NodePort] = true
	}
	local := spec.Type == corev1.ServiceTypeLoadBalancer && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if local && spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort = g.somePort(field.NewPath("spec", "healthCheckNodePort"))
	}
}

func (g *grant) somePort(path *field.Path) int32 {
	port, ok := g.freePort(g.used)
	if !ok {
		g.errs = append(g.errs, field.InternalError(path, fmt.Errorf("failed to allocate a nodePort: range is full")))
		return 0
	}
	g.take(port)
	return port
}

// port takes the node port that the service asks for.
func (g *grant) port(path *field.Path, port int32) {
	switch {
	case g.old != nil && holds(g.old)[port]:
	case port < g.ranges.First, port > g.ranges.Last:
		g.errs = append(g.errs, field.Invalid(path, port, fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", g.ranges.First, g.ranges.Last)))
	case g.used[port]:
		g.errs = append(g.errs, field.Invalid(path, port, "provided port is already allocated"))
	default:
		g.take(port)
	}
}
