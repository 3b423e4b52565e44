package gc_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/berth-dev/berth/host/api/gc"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// world is a registry with a running collector.
type world struct {
	*testing.T
	reg *registry.Registry
}

func start(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.collect()
	return w
}

// newWorld is one whose collector does not run yet.
func newWorld(t *testing.T) *world {
	t.Helper()
	st, err := store.Open(t.Context(), store.NewMemory(), kind.Codec{}, store.Options{Indexes: registry.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t, registry.New(registry.Config{Store: st})}
	w.create("namespaces", "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	return w
}

func (w *world) collect() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- gc.New(w.reg, nil).Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("Run = %v", err)
		}
	})
}

func (w *world) create(resource, ns string, obj store.Object) store.Object {
	w.Helper()
	made, err := w.reg.Create(w.Context(), registry.On(resource, ns, ""), obj)
	if err != nil {
		w.Fatal(err)
	}
	return made
}

// configMap makes one, owned by the others and blocking their deletion.
func (w *world) configMap(name string, owners ...store.Object) store.Object {
	w.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, o := range owners {
		cm.OwnerReferences = append(cm.OwnerReferences, reference(o))
	}
	return w.create("configmaps", "ns", cm)
}

// reference is to an owner whose deletion is blocked.
func reference(owner store.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: ptr.To(true),
	}
}

func (w *world) remove(resource, ns, name string, policy metav1.DeletionPropagation) {
	w.Helper()
	if _, _, err := w.reg.Delete(w.Context(), registry.On(resource, ns, name), &metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		w.Fatal(err)
	}
}

// eventually waits for a state of the world.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	polltest.Until(w, what, holds)
}

func (w *world) gone(resource, ns, name string) func() bool {
	return func() bool {
		_, err := w.reg.Get(w.Context(), registry.On(resource, ns, name))
		return apierrors.IsNotFound(err)
	}
}

func TestDependentsGoInTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		parent := w.configMap("parent")
		child := w.configMap("child", parent)
		w.configMap("grandchild", child)
		w.remove("configmaps", "ns", "parent", metav1.DeletePropagationBackground)
		w.eventually("the child goes", w.gone("configmaps", "ns", "child"))
		w.eventually("the grandchild goes", w.gone("configmaps", "ns", "grandchild"))
	})
}

func TestForegroundDeletionEndsWithTheOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		parent := w.configMap("parent")
		child := w.configMap("child", parent)
		w.configMap("grandchild", child)
		w.remove("configmaps", "ns", "parent", metav1.DeletePropagationForeground)
		w.eventually("the parent goes", w.gone("configmaps", "ns", "parent"))
		for _, name := range []string{"child", "grandchild"} {
			if !w.gone("configmaps", "ns", name)() {
				t.Errorf("%s is left although its owner waited for it", name)
			}
		}
	})
}

// An owner waits for its dependents to go, and no longer for one that lets it go.
func TestForegroundDeletionEndsWhereADependentLetsGo(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(child store.Object){
		"its reference is removed": func(child store.Object) { child.SetOwnerReferences(nil) },
		"its reference does not block": func(child store.Object) {
			refs := child.GetOwnerReferences()
			refs[0].BlockOwnerDeletion = ptr.To(false)
			child.SetOwnerReferences(refs)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := start(t)
				child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child", Finalizers: []string{"a/b"}}}
				child.OwnerReferences = []metav1.OwnerReference{reference(w.configMap("parent"))}
				w.create("configmaps", "ns", child)
				w.remove("configmaps", "ns", "parent", metav1.DeletePropagationForeground)
				synctest.Wait()
				if w.gone("configmaps", "ns", "parent")() {
					t.Fatal("the parent does not wait")
				}
				_, err := w.reg.Modify(t.Context(), registry.On("configmaps", "ns", "child"), func(old store.Object) (store.Object, error) {
					next := old.DeepCopyObject().(store.Object)
					change(next)
					return next, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				w.eventually("the parent goes", w.gone("configmaps", "ns", "parent"))
			})
		})
	}
}

func TestForegroundDeletionLeavesAnotherOwnersDependent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.configMap("child", w.configMap("parent"), w.configMap("other"))
		synctest.Wait()
		w.remove("configmaps", "ns", "parent", metav1.DeletePropagationForeground)
		w.eventually("the parent goes", w.gone("configmaps", "ns", "parent"))
		if w.gone("configmaps", "ns", "child")() {
			t.Error("the child is gone")
		}
	})
}

func TestOrphansStayWithoutTheirOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.configMap("child", w.configMap("parent"))
		w.remove("configmaps", "ns", "parent", metav1.DeletePropagationOrphan)
		w.eventually("the parent goes", w.gone("configmaps", "ns", "parent"))
		child, err := w.reg.Get(t.Context(), registry.On("configmaps", "ns", "child"))
		if err != nil {
			t.Fatal(err)
		}
		if refs := child.GetOwnerReferences(); len(refs) != 0 {
			t.Errorf("the orphan has references %v, want none", refs)
		}
	})
}

func TestAnObjectCreatedForAnOwnerThatIsGoneGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.configMap("late", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "never", UID: "no-such-uid"}})
		w.eventually("the late child goes", w.gone("configmaps", "ns", "late"))
	})
}

// An object of the cluster cannot be owned by one of a namespace. Kubernetes
// leaves one that says so alone.
func TestAnObjectOfTheClusterStaysWhateverNamespacedOwnerItNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		owner := w.configMap("owner")
		for _, o := range []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.GetUID()},
			{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "no-such-uid"},
		} {
			w.create("namespaces", "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "of-" + o.Name, OwnerReferences: []metav1.OwnerReference{o}}})
		}
		synctest.Wait()
		w.remove("configmaps", "ns", "owner", metav1.DeletePropagationBackground)
		synctest.Wait()
		for _, name := range []string{"of-owner", "of-never"} {
			ns, err := w.reg.Get(t.Context(), registry.On("namespaces", "", name))
			if err != nil || ns.GetDeletionTimestamp() != nil || len(ns.GetOwnerReferences()) != 1 {
				t.Errorf("%s = %v, %v, want it as it was", name, ns, err)
			}
		}
	})
}

func TestAnObjectStaysWhileOneOwnerStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		first, second := w.configMap("first"), w.configMap("second")
		w.configMap("child", first, second)
		w.remove("configmaps", "ns", "first", metav1.DeletePropagationBackground)
		w.eventually("the reference to the first owner goes", func() bool {
			child, err := w.reg.Get(t.Context(), registry.On("configmaps", "ns", "child"))
			return err == nil && len(child.GetOwnerReferences()) == 1 && child.GetOwnerReferences()[0].UID == second.GetUID()
		})
	})
}

func TestADeletedNamespaceEmptiesItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.configMap("a")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, NodeName: "n"}}
		w.create("pods", "ns", pod)
		w.remove("namespaces", "", "ns", metav1.DeletePropagationBackground)
		w.eventually("the pod is asked to end", func() bool {
			p, err := w.reg.Get(t.Context(), registry.On("pods", "ns", "p"))
			return err == nil && p.GetDeletionTimestamp() != nil
		})
		w.condition("ns", corev1.NamespaceContentRemaining, corev1.ConditionTrue, "SomeResourcesRemain", "Some resources are remaining: pods. has 1 resource instances")
		w.condition("ns", corev1.NamespaceDeletionDiscoveryFailure, corev1.ConditionFalse, "ResourcesDiscovered", "All resources successfully discovered")
		if w.gone("configmaps", "ns", "a")() {
			t.Error("other objects go before the pods have ended")
		}
		_, err := w.reg.Create(t.Context(), registry.On("configmaps", "ns", ""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("create in a namespace that is going: %v, want the cause NamespaceTerminating", err)
		}
		if _, _, err := w.reg.Delete(t.Context(), registry.On("pods", "ns", "p"), &metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
			t.Fatal(err)
		}
		w.eventually("the namespace goes", w.gone("namespaces", "", "ns"))
	})
}

// condition waits for a condition of a namespace.
func (w *world) condition(name string, t corev1.NamespaceConditionType, status corev1.ConditionStatus, reason, message string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s is %s: %s %q", t, status, reason, message), func() bool {
		obj, err := w.reg.Get(w.Context(), registry.On("namespaces", "", name))
		if err != nil {
			return false
		}
		return slices.ContainsFunc(obj.(*corev1.Namespace).Status.Conditions, func(c corev1.NamespaceCondition) bool {
			return c.Type == t && c.Status == status && c.Reason == reason && c.Message == message && !c.LastTransitionTime.IsZero()
		})
	})
}

func TestANamespaceTellsWhatHoldsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
		w.create("configmaps", "ns", held)
		w.remove("namespaces", "", "ns", metav1.DeletePropagationBackground)
		w.condition("ns", corev1.NamespaceFinalizersRemaining, corev1.ConditionTrue, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances")
		w.condition("ns", corev1.NamespaceContentRemaining, corev1.ConditionTrue, "SomeResourcesRemain",
			"Some resources are remaining: configmaps. has 1 resource instances")
		w.condition("ns", corev1.NamespaceDeletionContentFailure, corev1.ConditionFalse, "ContentDeleted",
			"All content successfully deleted, may be waiting on finalization")
		if _, err := w.reg.Modify(t.Context(), registry.On("configmaps", "ns", "held"), func(old store.Object) (store.Object, error) {
			next := old.DeepCopyObject().(store.Object)
			next.SetFinalizers(nil)
			return next, nil
		}); err != nil {
			t.Fatal(err)
		}
		w.eventually("the namespace goes", w.gone("namespaces", "", "ns"))
	})
}

// Owners that own one another would each wait for the next one for ever.
func TestACircleOfOwnersGoesInTheForeground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ names, removed []string }{
			{[]string{"a", "b", "c"}, []string{"a"}},
			{[]string{"a", "b", "c"}, []string{"a", "b", "c"}},
			{[]string{"self"}, []string{"self"}},
		} {
			w, names := newWorld(t), c.names
			made := map[string]store.Object{}
			for _, name := range names {
				made[name] = w.configMap(name)
			}
			for i, name := range names {
				owner := made[names[(i+1)%len(names)]]
				if _, err := w.reg.Modify(w.Context(), registry.On("configmaps", "ns", name), func(old store.Object) (store.Object, error) {
					next := old.DeepCopyObject().(store.Object)
					next.SetOwnerReferences([]metav1.OwnerReference{{
						APIVersion: "v1", Kind: "ConfigMap", Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
					}})
					return next, nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range c.removed {
				w.remove("configmaps", "ns", name, metav1.DeletePropagationForeground)
			}
			w.collect()
			for _, name := range names {
				w.eventually(name+" goes", w.gone("configmaps", "ns", name))
			}
		}
	})
}
