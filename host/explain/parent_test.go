package explain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

// ofPods is a controller of ReplicaSets that is never asked.
type ofPods struct{ controller.Guest }

func (ofPods) Parent() abi.ObjectKind {
	return abi.ObjectKind{APIVersion: "apps/v1", Kind: "ReplicaSet"}
}
func (ofPods) Children() []abi.ObjectKind {
	return []abi.ObjectKind{{APIVersion: "v1", Kind: "Pod"}}
}
func (ofPods) Related() []abi.ObjectKind { return nil }

// A UID in a reference says nothing by itself: anybody writes it there, and the
// words of his pod would be told of another's parent.
func TestAParentIsToldOfItsOwnChildren(t *testing.T) {
	t.Parallel()
	objects := storetest.Open(t, store.Options{Indexes: controller.Indexes(registry.Indexes())})
	d, err := controller.New(controller.Config{Guest: ofPods{}, Objects: objects, Types: controllertest.Types, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	sets := kind.MustStored(d.Of())
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-of-web"}}
	put := func(key store.Key, o store.Object) {
		if _, _, err := objects.Commit(t.Context(), store.Op{Kind: store.Create, Key: key, Object: o}); err != nil {
			t.Fatal(err)
		}
	}
	put(sets.Key("default", "web"), set)
	for name, change := range map[string]func(*v1.Pod){
		"own":               func(*v1.Pod) {},
		"of-another-name":   func(p *v1.Pod) { p.OwnerReferences[0].Name = "other" },
		"of-another-kind":   func(p *v1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" },
		"of-another-group":  func(p *v1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" },
		"of-another-place":  func(p *v1.Pod) { p.Namespace = "other" },
		"of-no-controllers": func(p *v1.Pod) { p.OwnerReferences[0].Controller = nil },
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		p.Status.Phase = v1.PodPending
		change(p)
		put(kind.MustStored("pods").Key(p.Namespace, p.Name), p)
	}
	family := explain.Family{Objects: objects, Drivers: []explain.Driven{{Policy: "ReplicaSet", Driver: d}}, May: func(*kind.Kind) bool { return true }}
	got := family.Of(sets, "default", "web").Pods
	if diff := cmp.Diff([]explain.WaitingPods{{Count: 1, Example: "own", Reason: "Pending"}}, got); diff != "" {
		t.Errorf("the pods of a ReplicaSet (-want +got):\n%s", diff)
	}
}
