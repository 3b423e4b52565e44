package admission

import (
	"context"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth"
	"github.com/berth-dev/berth/host/auth/serviceaccount"
	"github.com/berth-dev/berth/host/auth/view"
)

// namespaceLifecycle keeps the system's namespaces and prepares new ones. That
// nothing is created in a namespace that ends is the registry's to refuse.
type namespaceLifecycle struct {
	objects  view.Objects
	defaults *serviceaccount.Defaults
}

func (n namespaceLifecycle) admit(ctx context.Context, a *registry.Attributes) error {
	if whole(a, registry.Delete) {
		for _, name := range auth.SystemNamespaces {
			if a.Name == name {
				return forbid(a, "this namespace may not be deleted")
			}
		}
	}
	if !whole(a, registry.Create) || a.Name == "" {
		return nil
	}
	// In the transaction of the namespace itself: whoever creates a pod right
	// behind finds the account there.
	for _, op := range n.defaults.Ops(a.Name) {
		if _, err := n.objects.Get(ctx, op.Key); view.Missing(err) {
			a.Also(op)
		}
	}
	return nil
}
