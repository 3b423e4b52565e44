package network

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/network/balancer"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/nodeagent/service"
)

const (
	endpointSlices = "endpointslices.discovery.k8s.io"
	// indexOfService finds slices by NAMESPACE/NAME of their Service.
	indexOfService = "metadata.labels." + discoveryv1.LabelServiceName
)

// balancers give Services of type LoadBalancer their addresses.
type balancers struct {
	net *Network
	// woken has run look at all again.
	woken chan struct{}

	mu       sync.Mutex
	services map[types.NamespacedName]*v1.Service // those that are ours
	nodes    map[string]balancer.Node             // those that can answer

	// told is what Events said last; it is run's alone.
	told map[types.NamespacedName]balancer.Result
}

func newBalancers(n *Network) *balancers {
	return &balancers{
		net: n, woken: make(chan struct{}, 1), services: map[types.NamespacedName]*v1.Service{}, nodes: map[string]balancer.Node{},
		told: map[types.NamespacedName]balancer.Result{},
	}
}

func (b *balancers) wake() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

// serviceChanged notes a Service that is ours.
func (b *balancers) serviceChanged(ctx context.Context, change store.Event) {
	s, ok := change.Object.(*v1.Service)
	if !ok {
		return
	}
	name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	ours := change.Type != store.Deleted && balancer.Ours(s)
	b.mu.Lock()
	_, was := b.services[name]
	if delete(b.services, name); ours {
		b.services[name] = s
	}
	b.mu.Unlock()
	if ours || was {
		b.wake()
	}
	if _, left := s.Annotations[service.AnnouncedBy]; left && !ours && change.Type != store.Deleted {
		b.net.failed(ctx, "take a Service's announcer back", b.write(ctx, name, func(s *v1.Service) {
			if !balancer.Ours(s) {
				delete(s.Annotations, service.AnnouncedBy)
			}
		}))
	}
}

// nodeChanged notes a node that can answer, or can no more.
func (b *balancers) nodeChanged(_ context.Context, change store.Event) {
	node, ok := change.Object.(*v1.Node)
	if !ok {
		return
	}
	now := balancer.Node{Name: node.Name}
	if change.Type != store.Deleted {
		now.Addresses, now.Keeps = balances(node), keeps(node)
	}
	b.mu.Lock()
	was := b.nodes[node.Name]
	same := slices.Equal(now.Addresses, was.Addresses) && maps.Equal(now.Keeps, was.Keeps)
	if delete(b.nodes, node.Name); len(now.Addresses) > 0 {
		b.nodes[node.Name] = now
	}
	b.mu.Unlock()
	if !same {
		b.wake()
	}
}

// balances are where others reach a node that may answer for load balancers.
func balances(node *v1.Node) (at []netip.Addr) {
	if _, excluded := node.Labels[v1.LabelNodeExcludeBalancers]; excluded || !holds(node, v1.NodeReady) {
		return nil
	}
	for _, text := range addressOf(node) {
		if a, err := netip.ParseAddr(text); err == nil && !a.IsLoopback() {
			at = append(at, a)
		}
	}
	return at
}

// keeps are the ports at which a node's agent answers: it may be told others than
// those by default.
func keeps(node *v1.Node) map[balancer.Port]string {
	out := map[balancer.Port]string{}
	if port := node.Status.DaemonEndpoints.KubeletEndpoint.Port; port != 0 {
		out[balancer.Port{Number: port, Protocol: v1.ProtocolTCP}] = "the node agent"
	}
	for _, c := range node.Status.Conditions {
		if c.Type != serving || c.Status != v1.ConditionTrue {
			continue
		}
		ports := [2]int32{80, 443} // of an agent that does not say
		_, _ = fmt.Sscanf(c.Message, service.IngressPorts, &ports[0], &ports[1])
		for _, port := range ports {
			if port != 0 {
				out[balancer.Port{Number: port, Protocol: v1.ProtocolTCP}] = "Ingresses are answered there"
			}
		}
	}
	return out
}

// sliceChanged looks again where the endpoints' nodes matter.
func (b *balancers) sliceChanged(_ context.Context, change store.Event) {
	s, ok := change.Object.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	b.mu.Lock()
	of := b.services[types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}]
	b.mu.Unlock()
	if of != nil && of.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal {
		b.wake()
	}
}

// prime notes what is there: of all Services, or else a new one may get what another
// has.
func (b *balancers) prime(ctx context.Context) error {
	for resource, changed := range map[string]func(context.Context, store.Event){services: b.serviceChanged, nodes: b.nodeChanged} {
		list, err := b.net.store.List(resource, "", store.ListOptions{})
		if err != nil {
			return err
		}
		for _, obj := range list.Items {
			changed(ctx, store.Event{Type: store.Added, Object: obj})
		}
	}
	return nil
}

// run gives addresses until ctx ends.
func (b *balancers) run(ctx context.Context) error {
	for {
		select {
		case <-b.woken:
			b.decide(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *balancers) decide(ctx context.Context) {
	b.mu.Lock()
	byName := make(map[types.NamespacedName]balancer.Service, len(b.services))
	all, nodes := make([]balancer.Service, 0, len(b.services)), make([]balancer.Node, 0, len(b.nodes))
	for name, s := range b.services {
		byName[name] = balancer.Service{Service: s}
	}
	for _, n := range b.nodes {
		nodes = append(nodes, n)
	}
	b.mu.Unlock()
	for name, s := range byName {
		if s.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal {
			s.Near = b.near(name)
		}
		all = append(all, s)
	}
	results := b.net.Balancers.Decide(all, nodes)
	for name, r := range results {
		if err := b.give(ctx, name, r); err != nil {
			b.net.failed(ctx, "give a Service its load balancer's address", err)
			time.AfterFunc(again, b.wake)
			continue
		}
		b.tell(byName[name].Service, r)
	}
	for name := range b.told {
		if _, ok := results[name]; !ok {
			delete(b.told, name)
		}
	}
}

// near are the nodes of a Service's endpoints that are ready.
func (b *balancers) near(name types.NamespacedName) map[string]bool {
	out := map[string]bool{}
	for _, obj := range b.net.store.Indexed(endpointSlices, indexOfService, name.String()) {
		s, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if e.NodeName != nil && ptr.Deref(e.Conditions.Ready, true) {
				out[*e.NodeName] = true
			}
		}
	}
	return out
}

// give writes what a Service gets, unless it has it.
func (b *balancers) give(ctx context.Context, name types.NamespacedName, r balancer.Result) error {
	change := func(s *v1.Service) {
		if !balancer.Ours(s) {
			return
		}
		var at []v1.LoadBalancerIngress
		for _, ip := range r.Addresses {
			at = append(at, v1.LoadBalancerIngress{IP: ip, IPMode: ptr.To(v1.LoadBalancerIPModeVIP)})
		}
		s.Status.LoadBalancer.Ingress = at
		if delete(s.Annotations, service.AnnouncedBy); r.Node != "" {
			if s.Annotations == nil {
				s.Annotations = map[string]string{}
			}
			s.Annotations[service.AnnouncedBy] = r.Node
		}
	}
	obj, ok := b.net.store.Get(store.Key{Resource: services, Namespace: name.Namespace, Name: name.Name})
	if !ok {
		return nil
	}
	next := obj.(*v1.Service).DeepCopy()
	if change(next); apiequality.Semantic.DeepEqual(obj, next) {
		return nil
	}
	return b.write(ctx, name, change)
}

// write changes a Service as its status is changed, which may change annotations too.
func (b *balancers) write(ctx context.Context, name types.NamespacedName, change func(*v1.Service)) error {
	_, err := b.net.Registry.Modify(ctx, registry.On(services, name.Namespace, name.Name).Sub("status"), func(old store.Object) (store.Object, error) {
		next := old.(*v1.Service).DeepCopy()
		change(next)
		return next, nil
	})
	return ignoreGone(err)
}

// tell has Events say what a Service got, or why it did not.
func (b *balancers) tell(s *v1.Service, r balancer.Result) {
	name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	before, known := b.told[name]
	b.told[name] = r
	if b.net.Event == nil {
		return
	}
	if r.Ignored != "" && r.Ignored != before.Ignored {
		b.net.Event(s, v1.EventTypeWarning, "LoadBalancerIPIgnored",
			"loadBalancerIP "+r.Ignored+" has no effect: Services are answered at nodes' own addresses; give the host a pool by --load-balancers")
	}
	switch {
	case r.Missing != "" && r.Missing != before.Missing:
		b.net.Event(s, v1.EventTypeWarning, "SyncLoadBalancerFailed", r.Missing)
	case r.Missing == "" && (before.Missing != "" || !known && len(s.Status.LoadBalancer.Ingress) == 0):
		b.net.Event(s, v1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	}
}
