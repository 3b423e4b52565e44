package network

import (
	"context"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/serviceip"
	"github.com/berth-dev/berth/host/store"
)

const (
	// defaultRange is the ServiceCIDR of the configuration.
	defaultRange = "kubernetes"
	// finalizer holds a range as long as services have addresses of it.
	finalizer = "networking.k8s.io/service-cidr-finalizer"
)

// ownRange makes the ServiceCIDR of the configuration.
func (n *Network) ownRange(ctx context.Context) error {
	if _, ok := n.store.Get(store.Key{Resource: ranges, Name: defaultRange}); ok {
		return nil
	}
	cidrs := make([]string, len(n.Services))
	for i, r := range n.Services {
		cidrs[i] = r.String()
	}
	_, err := n.Registry.Create(ctx, registry.On(ranges, "", ""), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: defaultRange}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	})
	return err
}

// rangeChanged makes a range ready, or lets it go when nobody needs it.
func (n *Network) rangeChanged(ctx context.Context, e store.Event) {
	c, ok := e.Object.(*networkingv1.ServiceCIDR)
	switch {
	case !ok:
	case e.Type == store.Deleted:
		n.ending(ctx) // others may be within one that went
	case c.DeletionTimestamp != nil:
		n.failed(ctx, "end a range of services", n.end(ctx, c))
	default:
		n.failed(ctx, "make a range of services ready", n.ready(ctx, c))
		n.ending(ctx) // a larger one lets smaller ones go
	}
}

// ending looks again at the ranges that are to go.
func (n *Network) ending(ctx context.Context) {
	for _, c := range n.allRanges() {
		if c.DeletionTimestamp != nil {
			n.failed(ctx, "end a range of services", n.end(ctx, c))
		}
	}
}

func (n *Network) allRanges() (all []*networkingv1.ServiceCIDR) {
	list, err := n.store.List(ranges, "", store.ListOptions{})
	if err != nil {
		return nil
	}
	for _, obj := range list.Items {
		if c, ok := obj.(*networkingv1.ServiceCIDR); ok {
			all = append(all, c)
		}
	}
	return all
}

func (n *Network) ready(ctx context.Context, c *networkingv1.ServiceCIDR) error {
	return n.change(ctx, c, func(next *networkingv1.ServiceCIDR) {
		if !slices.Contains(next.Finalizers, finalizer) {
			next.Finalizers = append(next.Finalizers, finalizer)
		}
		setReady(next, metav1.ConditionTrue, "", "Kubernetes Service CIDR is ready")
	})
}

func setReady(c *networkingv1.ServiceCIDR, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: status, Reason: reason, Message: message,
	})
}

// end lets a range go, unless services have addresses of it that no other range
// has.
func (n *Network) end(ctx context.Context, c *networkingv1.ServiceCIDR) error {
	if !slices.Contains(c.Finalizers, finalizer) {
		return nil
	}
	if n.needed(c) {
		return n.change(ctx, c, func(next *networkingv1.ServiceCIDR) {
			setReady(next, metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating,
				"There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")
		})
	}
	_, err := n.Registry.Modify(ctx, registry.On(ranges, "", c.Name), func(old store.Object) (store.Object, error) {
		next := old.DeepCopyObject().(store.Object)
		next.SetFinalizers(slices.DeleteFunc(next.GetFinalizers(), func(f string) bool { return f == finalizer }))
		return next, nil
	})
	return ignoreGone(err)
}

func (n *Network) needed(c *networkingv1.ServiceCIDR) bool {
	list, err := n.store.List(addresses, "", store.ListOptions{})
	if err != nil {
		return true
	}
	mine, others := parse(c.Spec.CIDRs), slices.Clone(n.Services)
	if c.Name == defaultRange {
		others = nil
	}
	for _, other := range n.allRanges() {
		if other.Name != c.Name {
			others = append(others, parse(other.Spec.CIDRs)...)
		}
	}
	for _, obj := range list.Items {
		a := obj.(*networkingv1.IPAddress)
		ip, err := netip.ParseAddr(a.Name)
		if err == nil && serviceip.Managed(a) && within(mine, ip) && !within(others, ip) && serviceip.InUse(n.store, a) {
			return true
		}
	}
	return false
}

func within(in []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(in, func(r netip.Prefix) bool { return r.Contains(ip) })
}

func parse(texts []string) (out []netip.Prefix) {
	for _, text := range texts {
		if r, err := netip.ParsePrefix(text); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// change writes what is not so yet.
func (n *Network) change(ctx context.Context, c *networkingv1.ServiceCIDR, f func(*networkingv1.ServiceCIDR)) error {
	_, err := n.store.Update(ctx, store.Key{Resource: ranges, Name: c.Name}, func(o store.Object) (store.Object, error) {
		have, ok := o.(*networkingv1.ServiceCIDR)
		if !ok || have.UID != c.UID || have.DeletionTimestamp != nil && c.DeletionTimestamp == nil {
			return o, nil
		}
		next := have.DeepCopy()
		f(next)
		return next, nil
	})
	return ignoreGone(err)
}
