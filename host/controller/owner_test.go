package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
)

func TestWhoControlsAnObject(t *testing.T) {
	t.Parallel()
	kind := Kind{APIVersion: "apps/v1", Kind: "ReplicaSet"}
	for name, tt := range map[string]struct {
		change func(o *v1.Pod, ref *metav1.OwnerReference)
		want   bool
	}{
		"its owner":                       {func(*v1.Pod, *metav1.OwnerReference) {}, true},
		"its owner by another version":    {func(_ *v1.Pod, ref *metav1.OwnerReference) { ref.APIVersion = "apps/v1beta2" }, true},
		"nobody":                          {func(o *v1.Pod, _ *metav1.OwnerReference) { o.OwnerReferences = nil }, false},
		"an owner that is no controller":  {func(_ *v1.Pod, ref *metav1.OwnerReference) { ref.Controller = nil }, false},
		"one of another UID":              {func(_ *v1.Pod, ref *metav1.OwnerReference) { ref.UID = "other" }, false},
		"one of another name":             {func(_ *v1.Pod, ref *metav1.OwnerReference) { ref.Name = "other" }, false},
		"one of another kind":             {func(_ *v1.Pod, ref *metav1.OwnerReference) { ref.Kind = "DaemonSet" }, false},
		"one of another group":            {func(_ *v1.Pod, ref *metav1.OwnerReference) { ref.APIVersion = "example.com/v1" }, false},
		"one of the group without a name": {func(_ *v1.Pod, ref *metav1.OwnerReference) { ref.APIVersion = "v1" }, false},
		"one of another namespace":        {func(o *v1.Pod, _ *metav1.OwnerReference) { o.Namespace = "other" }, false},
	} {
		owner, o := set("web", 1), pod("a", "web")
		o.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		tt.change(o, &o.OwnerReferences[0])
		if got := ControlledBy(o, &kind, owner); got != tt.want {
			t.Errorf("ControlledBy(%s) = %v, want %v", name, got, tt.want)
		}
	}
}

func TestWhatIsInNoNamespaceControlsObjectsOfAny(t *testing.T) {
	t.Parallel()
	owner, o := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1"}}, pod("a", "web")
	o.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1.SchemeGroupVersion.WithKind("Node"))}
	if !ControlledBy(o, &Kind{APIVersion: "v1", Kind: "Node"}, owner) {
		t.Error("it does not control a pod")
	}
}

// A child whose reference is turned to another name, of the same UID, is lost.
func TestAChildThatIsTurnedAwayIsReplaced(t *testing.T) {
	t.Parallel()
	web := set("web", 1)
	mine := pod("mine", "web")
	mine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(web, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	drive(t, &guest{decide: keep}, func(c *cluster) {
		c.put("replicasets.apps", web)
		c.put("pods", mine)
	}, func(c *cluster) {
		c.update("pods", "mine", func(o store.Object) { o.(*v1.Pod).OwnerReferences[0].Name = "other" })
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"mine of other", "web-1 of web"}, c.pods()); diff != "" {
			t.Errorf("pods (-want +got):\n%s", diff)
		}
	})
}
