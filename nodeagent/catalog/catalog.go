// Package catalog follows the cluster's Services and EndpointSlices, once for
// all that this machine makes of them: service rules, DNS, the environment of
// containers.
package catalog

import (
	"context"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
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
	// It fails for informers that run already.
	utilruntime.Must(c.slices.Informer().AddIndexers(cache.Indexers{byService: serviceOf}))
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
