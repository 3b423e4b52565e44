package registry

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// between lets something happen while a config map is on its way: after the look
// at its namespace, before its commit.
type between struct {
	happens func()
	asked   int
}

func (b *between) Admit(context.Context, *Attributes) error { return nil }

func (b *between) Validate(_ context.Context, a *Attributes) error {
	if a.Resource.Resource != "configmaps" {
		return nil
	}
	if b.asked++; b.asked == 1 {
		b.happens()
	}
	return nil
}

// terminate marks the namespace as deleted; finish lets it go.
func terminate(t *testing.T, reg *Registry) {
	t.Helper()
	if _, gone, err := reg.Delete(t.Context(), On("namespaces", "", "ns"), nil); err != nil || gone {
		t.Fatalf("delete the namespace: gone %v, %v, want it terminating", gone, err)
	}
}

func finish(t *testing.T, reg *Registry) {
	t.Helper()
	_, err := reg.Modify(t.Context(), On("namespaces", "", "ns").Sub("finalize"), func(old store.Object) (store.Object, error) {
		next := old.(*corev1.Namespace).DeepCopy()
		next.Spec.Finalizers = slices.DeleteFunc(next.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func label(t *testing.T, reg *Registry) {
	t.Helper()
	_, err := reg.Modify(t.Context(), On("namespaces", "", "ns"), func(old store.Object) (store.Object, error) {
		next := old.DeepCopyObject().(store.Object)
		next.SetLabels(map[string]string{"a": "b"})
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsCreatedInANamespaceThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	terminating := func(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }
	for name, c := range map[string]struct {
		happens func(t *testing.T, reg *Registry)
		want    func(error) bool
		asked   int
	}{
		"it is marked as deleted": {terminate, terminating, 1},
		"it goes":                 {func(t *testing.T, reg *Registry) { terminate(t, reg); finish(t, reg) }, apierrors.IsNotFound, 1},
		"its labels change":       {label, func(err error) bool { return err == nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := openRegistry(t)
			b := &between{happens: func() { c.happens(t, reg) }}
			reg.admission = b
			_, err := reg.Create(t.Context(), On("configmaps", "ns", ""), configMap("a"))
			if !c.want(err) || b.asked != c.asked {
				t.Errorf("Create = %v, and admission was asked %d times, want %d", err, b.asked, c.asked)
			}
			_, there := reg.store.Get(On("configmaps", "ns", "a").key())
			if there != (err == nil) {
				t.Errorf("the object is there: %v, after the answer %v", there, err)
			}
		})
	}
}

func TestATransactionCreatesNothingInANamespaceThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	tx := reg.Begin()
	for _, name := range []string{"a", "b"} {
		if _, err := tx.Create(t.Context(), On("configmaps", "ns", ""), configMap(name)); err != nil {
			t.Fatal(err)
		}
	}
	terminate(t, reg)
	if _, err := tx.Commit(t.Context()); !errors.Is(err, store.ErrConflict) {
		t.Errorf("Commit = %v, want ErrConflict", err)
	}
	if list, err := reg.List(t.Context(), On("configmaps", "ns", ""), ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("%d objects, %v, want none", len(list.Items), err)
	}
	again := reg.Begin()
	_, err := again.Create(t.Context(), On("configmaps", "ns", ""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("Create afterwards = %v, want a refusal that names the namespace", err)
	}
}
