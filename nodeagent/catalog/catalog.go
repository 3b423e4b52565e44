// Package catalog follows the cluster's Services and EndpointSlices, once for
// all that this machine makes of them: service rules, DNS, the environment of
// containers.
package catalog

import (
	"context"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
)

// Catalog holds what it follows. Handlers may be added at any time.
type Catalog struct {
	factory  informers.SharedInformerFactory
	services coreinformers.ServiceInformer
	slices   discoveryinformers.EndpointSliceInformer
}

// New gives an empty catalog; Run fills it.
func New(client kubernetes.Interface) *Catalog {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	c := &Catalog{factory: factory, services: factory.Core().V1().Services(), slices: factory.Discovery().V1().EndpointSlices()}
	c.services.Informer() // known to the factory from now on
	c.slices.Informer()
	return c
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
