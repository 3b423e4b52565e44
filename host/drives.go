package host

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/store"
)

// actingAs is who a controller's ServiceAccount is.
func actingAs(guest *sandbox.Controller) user.Info {
	account := guest.ServiceAccount()
	return &user.DefaultInfo{Name: serviceaccount.MakeUsername(account.Namespace, account.Name), Groups: append(serviceaccount.MakeGroupNames(account.Namespace), user.AllAuthenticated)}
}

// drives says why a controller does not run: what it asks for is not served, or
// its ServiceAccount may not read a kind in any namespace.
func (h *Host) drives(guest *sandbox.Controller) error {
	if h.auth == nil || h.registry == nil {
		return nil // the host is starting
	}
	if _, err := h.driver(guest); err != nil {
		return err
	}
	may := access{h.auth.Access, actingAs(guest)}
	for _, k := range slices.Concat([]abi.ObjectKind{guest.Parent()}, guest.Children(), guest.Related()) {
		t, _ := servedType(k.APIVersion, k.Kind)
		if err := h.mayRead(may, t.Resource); err != nil {
			return err
		}
	}
	return nil
}

// mayRead says why somebody reads a kind in no namespace.
func (h *Host) mayRead(may access, resource string) error {
	ctx := context.Background()
	everywhere := may.May(ctx, "list", resource, "", "", "")
	if everywhere == nil {
		return nil
	}
	namespaces, err := h.store.List(view.Namespaces, "", store.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range namespaces.Items {
		if may.May(ctx, "list", resource, "", o.GetName(), "") == nil {
			return nil
		}
	}
	return everywhere
}
