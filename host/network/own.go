package network

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/serviceip"
	"github.com/berth-dev/berth/host/store"
)

// Names of the cluster's own services, which programs look for.
const (
	apiService   = "kubernetes"
	dnsNamespace = metav1.NamespaceSystem
	dnsService   = "kube-dns"

	apiPort = 443
	dnsPort = 53
)

// own makes what is missing of the cluster's own objects.
func (n *Network) own(ctx context.Context) {
	n.failed(ctx, "make the range of services", n.ownRange(ctx))
	n.failed(ctx, "make the class of Ingresses", n.ownIngressClass(ctx))
	n.failed(ctx, "make the service of the API", n.service(ctx, n.apiService()))
	n.failed(ctx, "make the service of the cluster's DNS", n.service(ctx, n.dnsService()))
	n.failed(ctx, "tell where the API is", errors.Join(n.slice(ctx), n.endpoints(ctx)))
}

func (n *Network) apiService() *v1.Service {
	at := n.servedAt()
	target := int32(apiPort)
	if len(at) > 0 {
		target = int32(at[0].Port())
	}
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: apiService,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: v1.ServiceSpec{
			ClusterIP: serviceip.Nth(n.Services[0], 1).String(),
			Ports:     []v1.ServicePort{{Name: "https", Port: apiPort, Protocol: v1.ProtocolTCP, TargetPort: intstr.FromInt32(target)}},
		},
	}
}

// dnsService has no endpoints: each node answers at its address.
func (n *Network) dnsService() *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: dnsNamespace, Name: dnsService,
			Labels: map[string]string{"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
		},
		Spec: v1.ServiceSpec{
			ClusterIP: dnsAddress(n.Services[0]).String(),
			Ports: []v1.ServicePort{
				{Name: "dns", Port: dnsPort, Protocol: v1.ProtocolUDP, TargetPort: intstr.FromInt32(dnsPort)},
				{Name: "dns-tcp", Port: dnsPort, Protocol: v1.ProtocolTCP, TargetPort: intstr.FromInt32(dnsPort)},
			},
		},
	}
}

// dnsAddress is the tenth of a range, as installers of Kubernetes have it, or
// the last of a small one.
func dnsAddress(r netip.Prefix) netip.Addr {
	bits := min(r.Addr().BitLen()-r.Bits(), 20)
	return serviceip.Nth(r, min(10, uint64(1)<<bits-2))
}

// service makes a service unless there is one: its user may have changed it. The
// port of the API follows the address where it listens.
func (n *Network) service(ctx context.Context, want *v1.Service) error {
	k := store.Key{Resource: services, Namespace: want.Namespace, Name: want.Name}
	if have, ok := n.store.Get(k); ok {
		if want.Name != apiService || apiequality.Semantic.DeepEqual(have.(*v1.Service).Spec.Ports, want.Spec.Ports) || len(n.servedAt()) == 0 {
			return nil
		}
		_, err := n.Registry.Modify(ctx, registry.On(services, want.Namespace, want.Name), func(old store.Object) (store.Object, error) {
			next := old.(*v1.Service).DeepCopy()
			next.Spec.Ports = want.Spec.Ports
			return next, nil
		})
		return ignoreGone(err)
	}
	_, err := n.Registry.Create(ctx, registry.On(services, want.Namespace, ""), want)
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) { // its namespace comes
		return nil
	}
	return err
}

// hosts are the addresses and the port at which the API is served to pods.
func (n *Network) hosts() (ips []string, port int32) {
	four := n.Services[0].Addr().Is4()
	for _, at := range n.servedAt() {
		if at.Addr().Is4() == four {
			ips, port = append(ips, at.Addr().String()), int32(at.Port())
		}
	}
	slices.Sort(ips)
	return slices.Compact(ips), port
}

func (n *Network) slice(ctx context.Context) error {
	ips, port := n.hosts()
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: apiService, Labels: map[string]string{discoveryv1.LabelServiceName: apiService},
		},
		AddressType: discoveryv1.AddressType(familyOf(n.Services[0])),
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, ip := range ips {
		want.Endpoints = append(want.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
	}
	if len(ips) > 0 {
		want.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To(port), Protocol: ptr.To(v1.ProtocolTCP)}}
	}
	return n.keep(ctx, endpointSlices, want, func(old store.Object) (store.Object, bool) {
		next := old.(*discoveryv1.EndpointSlice).DeepCopy()
		next.Endpoints, next.Ports = want.Endpoints, want.Ports
		return next, apiequality.Semantic.DeepEqual(old, next)
	})
}

func (n *Network) endpoints(ctx context.Context) error {
	ips, port := n.hosts()
	want := &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: apiService, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"},
	}}
	if len(ips) > 0 {
		subset := v1.EndpointSubset{Ports: []v1.EndpointPort{{Name: "https", Port: port, Protocol: v1.ProtocolTCP}}}
		for _, ip := range ips {
			subset.Addresses = append(subset.Addresses, v1.EndpointAddress{IP: ip})
		}
		want.Subsets = []v1.EndpointSubset{subset}
	}
	return n.keep(ctx, "endpoints", want, func(old store.Object) (store.Object, bool) {
		next := old.(*v1.Endpoints).DeepCopy()
		next.Subsets = want.Subsets
		return next, apiequality.Semantic.DeepEqual(old, next)
	})
}

// keep makes an object, or changes one that is not as it should be.
func (n *Network) keep(ctx context.Context, resource string, want store.Object, change func(old store.Object) (next store.Object, same bool)) error {
	have, ok := n.store.Get(store.Key{Resource: resource, Namespace: want.GetNamespace(), Name: want.GetName()})
	if !ok {
		_, err := n.Registry.Create(ctx, registry.On(resource, want.GetNamespace(), ""), want)
		if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if _, same := change(have); same {
		return nil
	}
	_, err := n.Registry.Modify(ctx, registry.On(resource, want.GetNamespace(), want.GetName()), func(old store.Object) (store.Object, error) {
		next, _ := change(old)
		return next, nil
	})
	return ignoreGone(err)
}

func familyOf(r netip.Prefix) v1.IPFamily {
	if r.Addr().Is4() {
		return v1.IPv4Protocol
	}
	return v1.IPv6Protocol
}

func ignoreGone(err error) error {
	if errors.Is(err, store.ErrNotFound) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
