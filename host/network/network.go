package network

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/network/balancer"
	"github.com/berth-dev/berth/host/store"
)

// Config is what the parts of the network are kept in.
type Config struct {
	Registry *registry.Registry
	// Services are the ranges of the configuration, the default family's first.
	Services []netip.Prefix
	// Ingress has a class be made for Ingresses that node agents answer for.
	Ingress bool
	// Balancers say where Services of type LoadBalancer get addresses from.
	Balancers balancer.Config
	// Event tells users of a Service what became of it; nil tells nobody.
	Event func(about store.Object, kind, reason, message string)
	Log   *slog.Logger
}

// Network keeps them.
type Network struct {
	Config
	store *store.Store

	mu      sync.Mutex
	serving []netip.AddrPort
	changed chan struct{}
}

// New makes a Network.
func New(c Config) *Network {
	return &Network{Config: c, store: c.Registry.Store(), changed: make(chan struct{}, 1)}
}

// Indexes adds what this package looks up in the store.
func Indexes(to map[string]map[string]store.IndexFunc) map[string]map[string]store.IndexFunc {
	if to[addresses] == nil {
		to[addresses] = map[string]store.IndexFunc{}
	}
	to[addresses][indexService] = func(obj store.Object) []string {
		a, ok := obj.(*networkingv1.IPAddress)
		if !ok || a.Spec.ParentRef == nil || a.Spec.ParentRef.Resource != "services" || a.Spec.ParentRef.Group != "" {
			return nil
		}
		return []string{a.Spec.ParentRef.Namespace + "/" + a.Spec.ParentRef.Name}
	}
	if to[endpointSlices] == nil {
		to[endpointSlices] = map[string]store.IndexFunc{}
	}
	to[endpointSlices][indexOfService] = func(obj store.Object) []string {
		if name := obj.GetLabels()[discoveryv1.LabelServiceName]; name != "" {
			return []string{obj.GetNamespace() + "/" + name}
		}
		return nil
	}
	return to
}

const (
	services     = "services"
	addresses    = "ipaddresses.networking.k8s.io"
	ranges       = "servicecidrs.networking.k8s.io"
	indexService = "spec.parentRef"
)

// Serve tells at which addresses pods reach the API, in place of those before.
func (n *Network) Serve(at ...netip.AddrPort) {
	n.mu.Lock()
	n.serving = slices.Clone(at)
	n.mu.Unlock()
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *Network) servedAt() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.serving
}

// again is how often the cluster's own objects are looked at: nobody else
// changes them, so that a watch would cost more than it finds.
const again = 10 * time.Second

// Run keeps all of it until ctx ends.
func (n *Network) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	at := &entrances{net: n, answered: map[string][]string{}}
	tell := map[string][]func(context.Context, store.Event){
		services: {n.serviceChanged}, ranges: {n.rangeChanged}, addresses: {n.addressChanged},
		ingresses: {at.ingressChanged}, nodes: {at.nodeChanged}, classes: {at.classChanged},
	}
	if n.Balancers.On() {
		b := newBalancers(n)
		if err := b.prime(ctx); err != nil {
			return err
		}
		for resource, changed := range map[string]func(context.Context, store.Event){services: b.serviceChanged, nodes: b.nodeChanged, endpointSlices: b.sliceChanged} {
			tell[resource] = append(tell[resource], changed)
		}
		group.Go(func() error { return b.run(ctx) })
	}
	for resource, all := range tell {
		group.Go(func() error {
			return n.follow(ctx, resource, func(ctx context.Context, change store.Event) {
				for _, changed := range all {
					changed(ctx, change)
				}
			})
		})
	}
	group.Go(func() error {
		tick := time.NewTicker(again)
		defer tick.Stop()
		for {
			n.own(ctx)
			select {
			case <-n.changed:
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
	err := group.Wait()
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || err == nil) {
		return nil
	}
	return err
}

// follow calls tell for all objects of a resource, and for each change, also for
// deletions that a watch missed.
func (n *Network) follow(ctx context.Context, resource string, tell func(context.Context, store.Event)) error {
	told := map[store.Key]store.Object{}
	changed := func(e store.Event) {
		if e.Type == store.Deleted {
			delete(told, e.Key)
		} else {
			told[e.Key] = e.Object
		}
		tell(ctx, e)
	}
	for {
		list, err := n.store.List(resource, "", store.ListOptions{})
		if err != nil {
			return err
		}
		gone := maps.Clone(told)
		for _, obj := range list.Items {
			key := store.Key{Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName()}
			delete(gone, key)
			changed(store.Event{Type: store.Added, Key: key, Object: obj})
		}
		for key, obj := range gone {
			changed(store.Event{Type: store.Deleted, Key: key, Object: obj})
		}
		if err := n.watch(ctx, resource, list.Revision, changed); !errors.Is(err, store.ErrCompacted) {
			return err
		}
	}
}

// watch calls tell for each change after a revision.
func (n *Network) watch(ctx context.Context, resource string, from int64, tell func(store.Event)) error {
	watch, err := n.store.Watch(resource, "", from)
	for err == nil {
		var events []store.Event
		events, err = watch.Next(ctx)
		for i := range events {
			tell(events[i])
		}
	}
	return err
}

// failed tells of what is tried again.
func (n *Network) failed(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		n.Log.Warn(what, "err", err)
	}
}
