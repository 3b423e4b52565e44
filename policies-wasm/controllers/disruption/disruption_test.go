package disruption

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
)

var app = map[string]string{"app": "web"}

func pdb(change ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: app}},
	}
	for _, c := range change {
		c(b)
	}
	return b
}

func atLeast(v intstr.IntOrString) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = &v }
}

func atMost(v intstr.IntOrString) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = &v }
}

func owned(kind, apiVersion, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
}

func pod(name string, owners []metav1.OwnerReference) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: app, OwnerReferences: owners},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
}

// fill makes a Deployment of ten by a ReplicaSet, and some of its pods.
func fill(w *controllertest.World, pods int) {
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: pod("", nil).Spec}
	selector := &metav1.LabelSelector{MatchLabels: app}
	d := w.Create("deployments.apps", &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](10), Selector: selector, Template: template},
	})
	rs := w.Create("replicasets.apps", &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "default", OwnerReferences: owned("Deployment", "apps/v1", "web", d.GetUID())},
		Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](4), Selector: selector, Template: template},
	})
	for i := range pods {
		w.Create("pods", pod(fmt.Sprintf("p%d", i), owned("ReplicaSet", "apps/v1", "web-1", rs.GetUID())))
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                                string
		budget                              *policyv1.PodDisruptionBudget
		pods                                int
		allowed, healthy, desired, expected int32
		reason                              string
	}{
		{"none yet", pdb(atLeast(intstr.FromInt32(1))), 0, 0, 0, 1, 0, "InsufficientPods"},
		{"a number of all pods", pdb(atLeast(intstr.FromInt32(3))), 5, 2, 5, 3, 5, "SufficientPods"},
		{"a number that is not reached", pdb(atLeast(intstr.FromInt32(3))), 2, 0, 2, 3, 2, "InsufficientPods"},
		{"a share of what the Deployment wants, rounded up", pdb(atLeast(intstr.FromString("35%"))), 6, 2, 6, 4, 10, "SufficientPods"},
		{"so many may be missing of what the Deployment wants", pdb(atMost(intstr.FromInt32(4))), 8, 2, 8, 6, 10, "SufficientPods"},
		{"a share may be missing", pdb(atMost(intstr.FromString("15%"))), 10, 2, 10, 8, 10, "SufficientPods"},
		{"all may be missing", pdb(atMost(intstr.FromInt32(50))), 3, 3, 3, 0, 10, "SufficientPods"},
		{"an empty selector is of all pods", pdb(atLeast(intstr.FromInt32(1)), func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }), 2, 1, 2, 1, 2, "SufficientPods"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			controllertest.Play(t, []string{"PodDisruptionBudget"}, func(w *controllertest.World) {
				fill(w, tt.pods)
				w.Create("poddisruptionbudgets.policy", tt.budget)
				w.Wait(time.Second)
				s := controllertest.Get[*policyv1.PodDisruptionBudget](w, "poddisruptionbudgets.policy", "web").Status
				if s.DisruptionsAllowed != tt.allowed || s.CurrentHealthy != tt.healthy || s.DesiredHealthy != tt.desired || s.ExpectedPods != tt.expected || s.ObservedGeneration != 1 {
					t.Errorf("status %+v, want %d allowed of %d healthy, %d desired, %d expected: %q", s, tt.allowed, tt.healthy, tt.desired, tt.expected, w.Events())
				}
				if len(s.Conditions) != 1 || s.Conditions[0].Reason != tt.reason {
					t.Errorf("conditions %+v, want %s", s.Conditions, tt.reason)
				}
				revision := w.Store.Revision()
				w.Wait(time.Hour)
				if w.Store.Revision() != revision {
					t.Error("it does not come to rest")
				}
			})
		})
	}
}

func TestAPodOfAnUnknownControllerAllowsNothing(t *testing.T) {
	t.Parallel()
	controllertest.Play(t, []string{"PodDisruptionBudget"}, func(w *controllertest.World) {
		w.Create("pods", pod("a", owned("Custom", "example.org/v1", "x", "u")))
		w.Create("poddisruptionbudgets.policy", pdb(atMost(intstr.FromInt32(1))))
		w.Wait(time.Second)
		s := controllertest.Get[*policyv1.PodDisruptionBudget](w, "poddisruptionbudgets.policy", "web").Status
		if len(s.Conditions) != 1 || s.Conditions[0].Reason != "SyncFailed" || s.DisruptionsAllowed != 0 {
			t.Errorf("status %+v, want SyncFailed", s)
		}
	})
}

func TestAnEvictedPodThatDoesNotGoCountsAgain(t *testing.T) {
	t.Parallel()
	controllertest.Play(t, []string{"PodDisruptionBudget"}, func(w *controllertest.World) {
		fill(w, 3)
		w.Create("poddisruptionbudgets.policy", pdb(atLeast(intstr.FromInt32(1))))
		w.Wait(time.Second)
		controllertest.Change(w, "poddisruptionbudgets.policy", "status", "web", func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptedPods = map[string]metav1.Time{"p0": metav1.Now()}
			b.Status.DisruptionsAllowed--
		})
		w.Wait(time.Second)
		get := func() policyv1.PodDisruptionBudgetStatus {
			return controllertest.Get[*policyv1.PodDisruptionBudget](w, "poddisruptionbudgets.policy", "web").Status
		}
		if s := get(); s.CurrentHealthy != 2 || s.DisruptionsAllowed != 1 || len(s.DisruptedPods) != 1 {
			t.Errorf("status %+v, want p0 not to count", s)
		}
		w.Wait(3 * time.Minute)
		if s := get(); s.CurrentHealthy != 3 || s.DisruptionsAllowed != 2 || len(s.DisruptedPods) != 0 {
			t.Errorf("status %+v, want p0 to count again", s)
		}
	})
}
