// Package catalog follows the cluster's Services and EndpointSlices, once for
// all that this machine makes of them: service rules, DNS, the environment of
// containers.
package catalog

import (
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// Catalog holds what it follows. Handlers may be added at any time.
type Catalog struct {
	factory  informers.SharedInformerFactory
	services coreinformers.ServiceInformer
	slices   discoveryinformers.EndpointSliceInformer

	mu sync.Mutex
	// changed is closed when a slice has, or a service is gone; nil where nobody waits
	// for that.
	changed chan struct{}
}

// New gives an empty catalog; Run fills it.
func New(client kubernetes.Interface) *Catalog {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	c := &Catalog{factory: factory, services: factory.Core().V1().Services(), slices: factory.Discovery().V1().EndpointSlices()}
	// It fails for informers that run already.
	utilruntime.Must(c.slices.Informer().AddIndexers(cache.Indexers{byService: serviceOf}))
	tell := func(any) { c.tell() }
	_, err := c.slices.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(any, any) { c.tell() }, DeleteFunc: tell,
	})
	utilruntime.Must(err)
	_, err = c.services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: tell})
	utilruntime.Must(err)
	return c
}

func (c *Catalog) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// change is closed when a slice changes, or a service goes.
func (c *Catalog) change() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// trim drops what nobody on a machine reads.
func trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *v1.Service:
		o.ManagedFields = nil
	case *discoveryv1.EndpointSlice:
		o.ManagedFields = nil
	}
	return obj, nil
}

// byService is the index of slices by their services.
const byService = "service"

func serviceOf(obj any) ([]string, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok || slice.Labels[discoveryv1.LabelServiceName] == "" {
		return nil, nil
	}
	return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
}

// Run follows until ctx ends.
func (c *Catalog) Run(ctx context.Context) error {
	c.factory.Start(ctx.Done())
	<-ctx.Done()
	c.factory.Shutdown()
	return ctx.Err()
}

// Services are all those of the cluster.
func (c *Catalog) Services() coreinformers.ServiceInformer { return c.services }

// Slices are all those of the cluster, of headless services too.
func (c *Catalog) Slices() discoveryinformers.EndpointSliceInformer { return c.slices }

// Synced tells whether both have been read whole once.
func (c *Catalog) Synced() bool {
	return c.services.Informer().HasSynced() && c.slices.Informer().HasSynced()
}

// SlicesOf are those of one service.
func (c *Catalog) SlicesOf(namespace, name string) []*discoveryv1.EndpointSlice {
	found, err := c.slices.Informer().GetIndexer().ByIndex(byService, namespace+"/"+name)
	if err != nil {
		return nil // there is this index
	}
	out := make([]*discoveryv1.EndpointSlice, 0, len(found))
	for _, obj := range found {
		if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
			out = append(out, slice)
		}
	}
	return out
}

// Ports are the TCP ports of a pod to which services send once it is ready.
func (c *Catalog) Ports(p *v1.Pod) (ports []uint16) {
	for _, s := range c.selecting(p) {
		for i := range s.Spec.Ports {
			if port := target(&s.Spec.Ports[i], p); port != 0 && !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// selecting are the services that send to a pod once it is ready.
func (c *Catalog) selecting(p *v1.Pod) []*v1.Service {
	all, err := c.services.Lister().Services(p.Namespace).List(labels.Everything())
	if err != nil {
		return nil // a cache has no errors
	}
	return slices.DeleteFunc(all, func(s *v1.Service) bool {
		return len(s.Spec.Selector) == 0 || s.Spec.Type == v1.ServiceTypeExternalName || s.Spec.PublishNotReadyAddresses ||
			!labels.ValidatedSetSelector(s.Spec.Selector).Matches(labels.Set(p.Labels))
	})
}

// target is the TCP port of a pod that a service's port leads to, 0 where it leads to
// none.
func target(to *v1.ServicePort, p *v1.Pod) uint16 {
	if to.Protocol != "" && to.Protocol != v1.ProtocolTCP {
		return 0
	}
	if to.TargetPort.Type == intstr.Int {
		return uint16(to.TargetPort.IntVal) //nolint:gosec // the API admits 1 to 65535
	}
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.Name == to.TargetPort.StrVal && (port.Protocol == "" || port.Protocol == v1.ProtocolTCP) {
				return uint16(port.ContainerPort) //nolint:gosec // likewise
			}
		}
	}
	return 0
}

// Withdrawn waits until no slice has a deleted pod as a ready endpoint that goes on. It
// gives the services that sent to the pod before: others learn of it at about the same
// time. What a slice says may be older than the pod: those of services that select a
// pod which was ready are waited for until they have it as one that ends.
func (c *Catalog) Withdrawn(ctx context.Context, p *v1.Pod) []types.NamespacedName {
	sent := map[types.NamespacedName]bool{}
	for {
		change := c.change()
		goesOn, ends := c.endpointsOf(p)
		for _, name := range goesOn {
			sent[name] = true
		}
		waits := len(goesOn) > 0
		if isReady(p) {
			for _, s := range c.selecting(p) {
				name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
				sent[name] = true
				waits = waits || !slices.Contains(ends, name)
			}
		}
		if !waits {
			return slices.Collect(maps.Keys(sent))
		}
		select {
		case <-ctx.Done():
			return slices.Collect(maps.Keys(sent))
		case <-change:
		}
	}
}

func isReady(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(is v1.PodCondition) bool {
		return is.Type == v1.PodReady && is.Status == v1.ConditionTrue
	})
}

// endpointsOf are the services whose slices have a pod as a ready endpoint that goes on,
// and those whose slices have it as one that ends.
func (c *Catalog) endpointsOf(p *v1.Pod) (goesOn, ends []types.NamespacedName) {
	found, err := c.slices.Informer().GetIndexer().ByIndex(cache.NamespaceIndex, p.Namespace)
	if err != nil {
		return nil, nil // there is this index
	}
	for _, obj := range found {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		name := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			switch {
			case e.TargetRef == nil || e.TargetRef.UID != p.UID:
			case ptr.Deref(e.Conditions.Terminating, false):
				ends = append(ends, name)
			case ptr.Deref(e.Conditions.Ready, true):
				goesOn = append(goesOn, name)
			}
		}
	}
	return goesOn, ends
}
