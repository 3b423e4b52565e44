package ephemeral_test

import (
	"context"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/ephemeral"
	"github.com/berth-dev/berth/host/store"
)

type recorder struct{ events []string }

func (r *recorder) Event(_ store.Object, kind, reason, message string) {
	r.events = append(r.events, kind+" "+reason+": "+message)
}

// run runs a Maker over a registry until the test ends. Whatever the test does
// is acted on when it waits.
func run(t *testing.T) (*registry.Registry, *recorder) {
	t.Helper()
	st, err := store.Open(t.Context(), store.NewMemory(), kind.Codec{}, store.Options{Indexes: registry.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	reg, events := registry.New(registry.Config{Store: st}), &recorder{}
	create(t, reg, "namespaces", "", &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ephemeral.New(reg, events).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return reg, events
}

func create(t *testing.T, reg *registry.Registry, resource, namespace string, o store.Object) store.Object {
	t.Helper()
	made, err := reg.Create(t.Context(), registry.On(resource, namespace, ""), o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func remove(t *testing.T, reg *registry.Registry, name string) {
	t.Helper()
	if _, _, err := reg.Delete(t.Context(), registry.On("persistentvolumeclaims", "ns", name), nil); err != nil {
		t.Fatal(err)
	}
}

func claimOf(reg *registry.Registry) *v1.PersistentVolumeClaim {
	synctest.Wait()
	o, _ := reg.Store().Get(store.Key{Resource: "persistentvolumeclaims", Namespace: "ns", Name: "p-scratch"})
	claim, _ := o.(*v1.PersistentVolumeClaim)
	return claim
}

func spec() v1.PersistentVolumeClaimSpec {
	return v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

func pod() *v1.Pod {
	template := &v1.PersistentVolumeClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}, Spec: spec(),
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "c", Image: "i"}},
		Volumes: []v1.Volume{
			{Name: "plain", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: template}}},
		},
	}}
}

func TestAnEphemeralVolumeHasAClaimOfThePods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg, events := run(t)
		p := create(t, reg, "pods", "ns", pod())
		for range 2 { // one that is taken away is made anew
			claim := claimOf(reg)
			if claim == nil {
				t.Fatalf("there is no claim: %q", events.events)
			}
			size := claim.Spec.Resources.Requests[v1.ResourceStorage]
			if !metav1.IsControlledBy(claim, p) || claim.Labels["a"] != "b" || claim.Annotations["c"] != "d" || size.String() != "1Gi" {
				t.Errorf("the claim is %+v %+v", claim.ObjectMeta, claim.Spec)
			}
			remove(t, reg, claim.Name)
		}
	})
}

func TestAnothersClaimIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg, events := run(t)
		create(t, reg, "persistentvolumeclaims", "ns", &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "p-scratch"}, Spec: spec()})
		p := create(t, reg, "pods", "ns", pod())
		if claim := claimOf(reg); metav1.IsControlledBy(claim, p) {
			t.Error("the pod took another's claim")
		}
		want := "Warning FailedBinding: ephemeral volume scratch: PVC ns/p-scratch was not created for pod ns/p (pod is not owner)"
		if len(events.events) == 0 || events.events[0] != want {
			t.Errorf("told %q, want %q", events.events, want)
		}
	})
}
