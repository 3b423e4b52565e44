package network

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/serviceip"
	"github.com/berth-dev/berth/host/store"
)

// serviceChanged writes down the addresses that a service has, and gives back
// those that it has no more.
func (n *Network) serviceChanged(ctx context.Context, e store.Event) {
	s, ok := e.Object.(*v1.Service)
	if !ok {
		return
	}
	var has []string
	if e.Type != store.Deleted {
		has = s.Spec.ClusterIPs
		for _, text := range has {
			if ip, err := netip.ParseAddr(text); err == nil {
				n.failed(ctx, "write down the address of a service", n.note(ctx, ip, s))
			}
		}
	} else if e.Key.Namespace == dnsNamespace || e.Key.Namespace == v1.NamespaceDefault {
		n.own(ctx) // in case it was one of the cluster's own
	}
	for _, obj := range n.store.Indexed(addresses, indexService, e.Key.Namespace+"/"+e.Key.Name) {
		a := obj.(*networkingv1.IPAddress)
		if serviceip.Managed(a) && !slices.Contains(has, a.Name) {
			n.failed(ctx, "give back the address of a service", n.release(ctx, a))
		}
	}
}

// note makes the IPAddress of a service from the time before there were any, or
// one that somebody has deleted.
func (n *Network) note(ctx context.Context, ip netip.Addr, s *v1.Service) error {
	k := serviceip.AddressKey(ip)
	if _, ok := n.store.Get(k); ok {
		return nil
	}
	_, _, err := n.store.Commit(ctx, store.Op{Kind: store.Create, Key: k, Object: serviceip.NewAddress(ip, s)})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// release deletes an address, unless a service has taken it meanwhile.
func (n *Network) release(ctx context.Context, a *networkingv1.IPAddress) error {
	if serviceip.InUse(n.store, a) {
		return nil
	}
	_, _, err := n.store.Commit(ctx, store.Op{
		Kind: store.Delete, Key: store.Key{Resource: addresses, Name: a.Name}, Expect: registry.Revision(a),
	})
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// addressChanged gives a service its address back that somebody has deleted, and
// lets a range go that waited for its last address.
func (n *Network) addressChanged(ctx context.Context, e store.Event) {
	a, ok := e.Object.(*networkingv1.IPAddress)
	if !ok || !serviceip.Managed(a) {
		return
	}
	if e.Type != store.Deleted {
		n.failed(ctx, "give back the address of a service", n.release(ctx, a))
		return
	}
	if ref := a.Spec.ParentRef; ref != nil && serviceip.InUse(n.store, a) {
		obj, ok := n.store.Get(store.Key{Resource: services, Namespace: ref.Namespace, Name: ref.Name})
		ip, err := netip.ParseAddr(a.Name)
		if ok && err == nil {
			n.failed(ctx, "write down the address of a service", n.note(ctx, ip, obj.(*v1.Service)))
		}
		return
	}
	n.ending(ctx)
}
