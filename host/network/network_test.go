package network_test

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/serviceip"
	"github.com/berth-dev/berth/host/network"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

const (
	addresses = "ipaddresses.networking.k8s.io"
	ranges    = "servicecidrs.networking.k8s.io"
	slicesOf  = "endpointslices.discovery.k8s.io"
)

type world struct {
	*testing.T
	reg *registry.Registry
	net *network.Network
}

// play runs a Network in time of its own.
func play(t *testing.T, before func(w *world), test func(w *world)) {
	t.Helper()
	playWith(t, network.Config{}, before, test)
}

// playWith runs one of a configuration, which needs no more.
func playWith(t *testing.T, c network.Config, before func(w *world), test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := storetest.OpenEngine(t, store.NewMemory(), store.Options{Indexes: network.Indexes(registry.Indexes())})
		own := serviceip.Defaults.Services
		w := &world{T: t, reg: registry.New(registry.Config{Store: st, Admission: serviceip.New(st, serviceip.Ranges{Services: own})})}
		for _, ns := range []string{"default", "kube-system", "ns"} {
			w.create("namespaces", "", &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		}
		if before != nil {
			before(w)
		}
		c.Registry, c.Services, c.Log = w.reg, own, slog.New(slog.DiscardHandler)
		w.net = network.New(c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.net.Run(ctx) }()
		synctest.Wait()
		test(w)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (w *world) create(resource, ns string, obj store.Object) store.Object {
	w.Helper()
	made, err := w.reg.Create(w.Context(), registry.On(resource, ns, ""), obj)
	if err != nil {
		w.Fatal(err)
	}
	return made
}

func (w *world) remove(resource, ns, name string) {
	w.Helper()
	if _, _, err := w.reg.Delete(w.Context(), registry.On(resource, ns, name), nil); err != nil {
		w.Fatal(err)
	}
}

func get[T store.Object](w *world, resource, ns, name string) (found T) {
	w.Helper()
	synctest.Wait()
	obj, ok := w.reg.Store().Get(store.Key{Resource: resource, Namespace: ns, Name: name})
	if !ok {
		w.Fatalf("there is no %s %s/%s", resource, ns, name)
	}
	return obj.(T)
}

func (w *world) has(resource, name string) bool {
	synctest.Wait()
	_, ok := w.reg.Store().Get(store.Key{Resource: resource, Name: name})
	return ok
}

func service(name string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}}}
}

func TestTheClusterHasItsOwnServices(t *testing.T) {
	t.Parallel()
	play(t, nil, func(w *world) {
		if s := get[*v1.Service](w, "services", "default", "kubernetes"); s.Spec.ClusterIP != "10.96.0.1" || s.Spec.Ports[0].Port != 443 {
			t.Errorf("default/kubernetes is %+v", s.Spec)
		}
		if s := get[*v1.Service](w, "services", "kube-system", "kube-dns"); s.Spec.ClusterIP != "10.96.0.10" || len(s.Spec.Ports) != 2 {
			t.Errorf("kube-system/kube-dns is %+v", s.Spec)
		}
		if e := get[*v1.Endpoints](w, "endpoints", "default", "kubernetes"); len(e.Subsets) != 0 {
			t.Errorf("endpoints %+v of an API that pods do not reach", e.Subsets)
		}
		w.net.Serve(netip.MustParseAddrPort("10.85.0.1:6443"))
		s := get[*discoveryv1.EndpointSlice](w, slicesOf, "default", "kubernetes")
		if len(s.Endpoints) != 1 || s.Endpoints[0].Addresses[0] != "10.85.0.1" || *s.Ports[0].Port != 6443 || s.Labels[discoveryv1.LabelServiceName] != "kubernetes" {
			t.Errorf("the slice is %+v", s)
		}
		e := get[*v1.Endpoints](w, "endpoints", "default", "kubernetes")
		if len(e.Subsets) != 1 || e.Subsets[0].Addresses[0].IP != "10.85.0.1" || e.Subsets[0].Ports[0].Port != 6443 {
			t.Errorf("the endpoints are %+v", e.Subsets)
		}
		if s := get[*v1.Service](w, "services", "default", "kubernetes"); s.Spec.Ports[0].TargetPort.IntVal != 6443 {
			t.Errorf("the target is %v", s.Spec.Ports[0].TargetPort)
		}
		revision := w.reg.Store().Revision()
		time.Sleep(time.Minute)
		if got := w.reg.Store().Revision(); got != revision {
			t.Errorf("%d writes in a minute in which nothing happened", got-revision)
		}
	})
}

func TestTheClustersOwnServicesComeBack(t *testing.T) {
	t.Parallel()
	play(t, nil, func(w *world) {
		w.net.Serve(netip.MustParseAddrPort("192.0.2.7:6443"))
		synctest.Wait()
		w.remove("services", "default", "kubernetes")
		w.remove(slicesOf, "default", "kubernetes")
		w.remove("endpoints", "default", "kubernetes")
		time.Sleep(11 * time.Second)
		get[*v1.Service](w, "services", "default", "kubernetes")
		get[*discoveryv1.EndpointSlice](w, slicesOf, "default", "kubernetes")
		get[*v1.Endpoints](w, "endpoints", "default", "kubernetes")
	})
}

func TestEachAddressIsWrittenDown(t *testing.T) {
	t.Parallel()
	var old string
	play(t, func(w *world) {
		s := w.create("services", "ns", service("old")).(*v1.Service)
		old = s.Spec.ClusterIP
		w.remove(addresses, "", old) // as if by a version that wrote none
	}, func(w *world) {
		if a := get[*networkingv1.IPAddress](w, addresses, "", old); a.Spec.ParentRef.Name != "old" {
			t.Errorf("%s is of %+v", old, a.Spec.ParentRef)
		}
		made := w.create("services", "ns", service("new")).(*v1.Service)
		ip := made.Spec.ClusterIP
		if a := get[*networkingv1.IPAddress](w, addresses, "", ip); a.Spec.ParentRef.Name != "new" {
			t.Errorf("%s is of %+v", ip, a.Spec.ParentRef)
		}
		w.remove(addresses, "", ip)
		if !w.has(addresses, ip) {
			t.Error("an address that is in use does not come back")
		}
		w.remove("services", "ns", "new")
		if w.has(addresses, ip) {
			t.Error("the address of a service that is gone is still there")
		}
	})
}

func TestARangeGoesWhenNobodyNeedsIt(t *testing.T) {
	t.Parallel()
	play(t, nil, func(w *world) {
		if c := get[*networkingv1.ServiceCIDR](w, ranges, "", "kubernetes"); !slices.Equal(c.Spec.CIDRs, []string{"10.96.0.0/16"}) ||
			!meta.IsStatusConditionTrue(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			t.Errorf("the configuration's range is %+v", c)
		}
		for name, cidr := range map[string]string{"more": "10.200.0.0/24", "within": "10.96.3.0/24"} {
			w.create(ranges, "", &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}})
		}
		for name, ip := range map[string]string{"a": "10.200.0.9", "b": "10.96.3.9"} {
			s := service(name)
			s.Spec.ClusterIP = ip
			w.create("services", "ns", s)
		}
		synctest.Wait()
		w.remove(ranges, "", "within") // another range has its addresses, too
		if w.has(ranges, "within") {
			t.Error("a range within another does not go")
		}
		w.remove(ranges, "", "more")
		c := get[*networkingv1.ServiceCIDR](w, ranges, "", "more")
		if cond := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady); cond == nil || cond.Reason != networkingv1.ServiceCIDRReasonTerminating {
			t.Errorf("conditions %+v, want it to say what it waits for", c.Status.Conditions)
		}
		w.remove("services", "ns", "a")
		if w.has(ranges, "more") {
			t.Error("a range whose last address is gone does not go")
		}
	})
}
