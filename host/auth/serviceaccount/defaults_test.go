package serviceaccount

import (
	"context"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/auth/view/viewtest"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
)

// ending are objects of which the namespace goes when it was listed.
type ending struct{ *viewtest.Memory }

func (e ending) List(ctx context.Context, resource, namespace string) ([]store.Object, error) {
	all, err := e.Memory.List(ctx, resource, namespace)
	e.Drop(view.Namespaces, "", "dev")
	return all, err
}

func TestANamespaceThatGoesIsNotFurnished(t *testing.T) {
	t.Parallel()
	objects := ending{&viewtest.Memory{}}
	objects.Put(view.Namespaces, &corev1.Namespace{ObjectMeta: meta("", "dev", "1")})
	defaults := NewDefaults(objects, []byte("PEM"), func() time.Time { return noon })
	if err := defaults.Restore(t.Context()); err != nil {
		t.Errorf("Restore = %v, want none: there is nothing to restore", err)
	}
	if all, err := objects.Memory.List(t.Context(), view.ServiceAccounts, "dev"); err != nil || len(all) > 0 {
		t.Errorf("%d accounts, %v, in a namespace that is not there", len(all), err)
	}
}
