package serviceip

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Admission gives addresses to services as they are created and changed.
type Admission struct{ allocator }

var _ registry.Admission = (*Admission)(nil)

// New makes the admission over the services of a store. A zero part of ranges
// is its default.
func New(st *store.Store, ranges Ranges) *Admission {
	return &Admission{allocator{ranges: ranges.withDefaults(), store: st, given: map[int32]time.Time{}}}
}

// Validate implements registry.Admission.
func (*Admission) Validate(context.Context, *registry.Attributes) error { return nil }

// Admit implements registry.Admission.
func (a *Admission) Admit(_ context.Context, at *registry.Attributes) error {
	if at.Resource != corev1.Resource("services") || at.Subresource != "" {
		return nil
	}
	old, _ := at.Old.(*corev1.Service)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown(old)
	s, ok := at.Object.(*corev1.Service)
	if !ok || at.Operation != registry.Create && at.Operation != registry.Update {
		return nil
	}
	asked := s.Spec.DeepCopy()
	g := &grant{Admission: a, at: at, service: s, old: old}
	if old != nil {
		keep(s, old)
	}
	g.families()
	if len(g.errs) == 0 {
		g.addresses()
		g.nodePorts()
	}
	if len(g.errs) > 0 {
		g.giveBack()
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, g.errs)
	}
	at.OnRollback(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		g.giveBack()
		s.Spec = *asked // another attempt asks for what this one asked for
	})
	return nil
}

// shown forgets that the ports of a service were given out: the store shows them
// until it gives them up.
func (a *Admission) shown(s *corev1.Service) {
	if s == nil {
		return
	}
	for _, p := range s.Spec.Ports {
		delete(a.given, p.NodePort)
	}
	delete(a.given, s.Spec.HealthCheckNodePort)
}

// keep fills in what an update leaves out: clients that read a service from a
// manifest don't know its addresses.
func keep(s, old *corev1.Service) {
	defer settleClusterIPs(&s.Spec, &old.Spec)
	if s.Spec.Type == corev1.ServiceTypeExternalName || old.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if s.Spec.ClusterIP == "" {
		s.Spec.ClusterIP = old.Spec.ClusterIP
	}
	if len(s.Spec.ClusterIPs) == 0 {
		s.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
	}
	if wantsNodePorts(s) && wantsNodePorts(old) {
		keepNodePorts(s.Spec.Ports, old.Spec.Ports)
	}
	if wantsHealthPort(s) && wantsHealthPort(old) && s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

// settleClusterIPs has clusterIPs follow clusterIP where an update changes that
// alone, as clients do that know no other.
func settleClusterIPs(spec, old *corev1.ServiceSpec) {
	switch {
	case spec.ClusterIP == old.ClusterIP:
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = slices.Clone(old.ClusterIPs)
		}
	case !slices.Equal(spec.ClusterIPs, old.ClusterIPs):
	case spec.ClusterIP == "":
		spec.ClusterIPs = nil
	default:
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// moves tells whether an update takes the service to another address, which
// validation refuses.
func (g *grant) moves() bool {
	if g.old == nil || g.old.Spec.Type == corev1.ServiceTypeExternalName {
		return false
	}
	had, asks := g.old.Spec.ClusterIPs, g.service.Spec.ClusterIPs
	return len(had) > 0 && len(asks) > 0 && had[0] != asks[0]
}

// grant is what one service gets.
type grant struct {
	*Admission
	at           *registry.Attributes
	service, old *corev1.Service
	ports        []int32
	errs         field.ErrorList
}

func (g *grant) refuse(err *field.Error) { g.errs = append(g.errs, err) }

func (g *grant) giveBack() {
	for _, port := range g.ports {
		delete(g.given, port)
	}
}

// addresses gives the service one of each of its families.
func (g *grant) addresses() {
	spec := &g.service.Spec
	if spec.Type == corev1.ServiceTypeExternalName || g.moves() {
		return
	}
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{corev1.ClusterIPNone}
		}
		return
	}
	path := field.NewPath("spec", "clusterIPs")
	var given []string
	if len(spec.ClusterIPs) > 0 {
		given = slices.Clone(spec.ClusterIPs)
	} else if spec.ClusterIP != "" {
		given = []string{spec.ClusterIP}
	}
	for _, text := range given {
		g.wanted(path, text)
	}
	for i := len(given); i < len(spec.IPFamilies); i++ {
		ip, ok := g.freeAddress(spec.IPFamilies[i], func(ip netip.Addr) bool {
			op, free := g.hold(ip)
			if free && op != nil {
				g.at.Also(*op)
			}
			return free
		})
		if !ok {
			g.refuse(field.InternalError(path, fmt.Errorf("failed to allocate a serviceIP: range is full")))
			return
		}
		given = append(given, ip.String())
	}
	if len(given) > 0 {
		spec.ClusterIP, spec.ClusterIPs = given[0], given
	}
}

// wanted takes the address that the service asks for.
func (g *grant) wanted(path *field.Path, text string) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return // validation says what is wrong with it
	}
	refuse := func(why string) {
		g.refuse(field.Invalid(path, []string{text}, fmt.Sprintf("failed to allocate IP %s: %s", text, why)))
	}
	ranges := g.rangesOf(family(ip))
	had := g.old != nil && slices.Contains(g.old.Spec.ClusterIPs, text)
	if !had && !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(ip) }) {
		within := make([]string, len(ranges))
		for i, r := range ranges {
			within[i] = r.String()
		}
		refuse(fmt.Sprintf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", text, oneOrMany(within)))
		return
	}
	op, free := g.hold(ip)
	switch {
	case !free && !had:
		refuse("provided IP is already allocated")
	case op != nil:
		g.at.Also(*op)
	}
}

func oneOrMany(texts []string) string {
	if len(texts) == 1 {
		return texts[0]
	}
	return fmt.Sprint(texts)
}

// hold tells whether the service may have an address, and with which write it
// takes it: none if it has it already. An IPAddress whose service is gone, or
// has another address, is out of date.
func (g *grant) hold(ip netip.Addr) (*store.Op, bool) {
	k := AddressKey(ip)
	made := NewAddress(ip, g.service)
	have, ok := g.store.Get(k)
	if !ok {
		return &store.Op{Kind: store.Create, Key: k, Object: made}, true
	}
	ref := have.(*networkingv1.IPAddress).Spec.ParentRef
	if ref != nil && *ref == *made.Spec.ParentRef {
		return nil, true
	}
	if InUse(g.store, have.(*networkingv1.IPAddress)) {
		return nil, false
	}
	next := have.DeepCopyObject().(*networkingv1.IPAddress)
	next.Spec = made.Spec
	return &store.Op{Kind: store.Update, Key: k, Object: next, Expect: registry.Revision(have)}, true
}

// managedBy is the label's value by which addresses that services were given are
// told from those that somebody reserved.
const managedBy = "ipallocator.k8s.io"

// AddressKey is where it is written who has an address.
func AddressKey(ip netip.Addr) store.Key {
	return store.Key{Resource: "ipaddresses.networking.k8s.io", Name: ip.String()}
}

// NewAddress says that a service has an address.
func NewAddress(ip netip.Addr, s *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: ip.String(), UID: uuid.NewUUID(), CreationTimestamp: metav1.Now(), Generation: 1,
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: string(family(ip)),
				networkingv1.LabelManagedBy:       managedBy,
			},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}},
	}
}

// Managed tells whether an address was given to a service.
func Managed(a *networkingv1.IPAddress) bool {
	return a.Labels[networkingv1.LabelManagedBy] == managedBy
}

// InUse tells whether an address is held: by a service that has it, or by
// whoever reserved it by hand.
func InUse(st *store.Store, a *networkingv1.IPAddress) bool {
	ref := a.Spec.ParentRef
	if !Managed(a) || ref == nil {
		return true
	}
	obj, ok := st.Get(store.Key{Resource: "services", Namespace: ref.Namespace, Name: ref.Name})
	if !ok {
		return false
	}
	return slices.Contains(obj.(*corev1.Service).Spec.ClusterIPs, a.Name)
}
