package catalog

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

func TestCatalogHasServicesAndSlices(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}
	sliced := meta
	sliced.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	c := New(fake.NewClientset(&v1.Service{ObjectMeta: meta}, &discoveryv1.EndpointSlice{ObjectMeta: sliced}))
	if c.Synced() {
		t.Error("synced before Run")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	if !cache.WaitForCacheSync(t.Context().Done(), c.Synced) {
		t.Fatal("not synced")
	}
	service, err := c.Services().Lister().Services("default").Get("web")
	if err != nil || service.ManagedFields != nil {
		t.Errorf("service = %+v, %v", service, err)
	}
	if slice, err := c.Slices().Lister().EndpointSlices("default").Get("web"); err != nil || slice.ManagedFields != nil {
		t.Errorf("slice = %+v, %v", slice, err)
	}
	if of := c.SlicesOf("default", "web"); len(of) != 1 {
		t.Errorf("slices of the service = %v", of)
	}
	if of := c.SlicesOf("other", "web"); len(of) != 0 {
		t.Errorf("slices of another service = %v", of)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}
