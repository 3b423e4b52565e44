package statefulset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/controller/controllertest"
)

type world = controllertest.World

// web is a StatefulSet of so many pods, and what else is said of it.
func web(replicas int32, say ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Annotations: map[string]string{"note": "mine"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "nginx", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"a": "<&>"}},
				Spec: v1.PodSpec{
					Containers: []v1.Container{{Name: "c", Image: "i:1"}},
					Volumes:    []v1.Volume{{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}
	for _, s := range say {
		s(set)
	}
	return set
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }
func onDelete(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
}
func from(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}

func minReady(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = n }
}

func partition(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
			Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n},
		}
	}
}

func image(name string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = name }
}

func replicas(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n }
}

func withClaims(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.VolumeClaimTemplates = []v1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"app": "other", "disk": "fast"}},
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}}
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: whenDeleted, WhenScaled: whenScaled}
	}
}

const (
	keep = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	drop = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

func play(t *testing.T, test func(*world)) {
	t.Helper()
	controllertest.Play(t, []string{"StatefulSet"}, test)
}

func begin(w *world, set *appsv1.StatefulSet) {
	w.Create("statefulsets.apps", set)
	w.Wait(time.Minute)
}

func change(w *world, say ...func(*appsv1.StatefulSet)) {
	w.T.Helper()
	controllertest.Change(w, "statefulsets.apps", "", "web", func(s *appsv1.StatefulSet) {
		for _, c := range say {
			c(s)
		}
	})
	w.Wait(time.Minute)
}

func get(w *world) *appsv1.StatefulSet {
	return controllertest.Get[*appsv1.StatefulSet](w, "statefulsets.apps", "web")
}

// podsOf tells of each pod its name and image.
func podsOf(w *world) string {
	var all []string
	for _, p := range controllertest.List[*v1.Pod](w, "pods") {
		all = append(all, p.Name+" "+p.Spec.Containers[0].Image)
	}
	return strings.Join(all, ", ")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestPodsHaveTheirIdentity(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		begin(w, web(3, withClaims(keep, keep)))
		list := controllertest.List[*v1.Pod](w, "pods")
		if len(list) != 3 {
			t.Fatalf("%d pods, want 3: %q", len(list), w.Events())
		}
		status := get(w).Status
		for i, p := range list {
			name := fmt.Sprintf("web-%d", i)
			wantLabels := map[string]string{
				"app": "web", nameLabel: name, indexLabel: fmt.Sprint(i), revisionLabel: status.UpdateRevision,
			}
			if diff := cmp.Diff(wantLabels, p.Labels); diff != "" {
				t.Errorf("labels of %s (-want +got):\n%s", p.Name, diff)
			}
			if p.Name != name || p.Spec.Hostname != name || p.Spec.Subdomain != "nginx" || p.Annotations["a"] != "<&>" {
				t.Errorf("pod %d is %s, %s.%s, %v", i, p.Name, p.Spec.Hostname, p.Spec.Subdomain, p.Annotations)
			}
			if p.GenerateName != "web-" { // Kubernetes says so, though the name is not made up
				t.Errorf("pod %s has the generateName %q", p.Name, p.GenerateName)
			}
			owner := metav1.GetControllerOf(p)
			if owner == nil || owner.Name != "web" || owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion {
				t.Errorf("pod %s belongs to %v", p.Name, owner)
			}
			if v := p.Spec.Volumes; len(v) != 2 || v[0].PersistentVolumeClaim.ClaimName != "data-"+name || v[1].Name != "tmp" {
				t.Errorf("volumes of %s are %v", p.Name, v)
			}
			claim := controllertest.Get[*v1.PersistentVolumeClaim](w, "persistentvolumeclaims", "data-"+name)
			if claim == nil || !cmp.Equal(claim.Labels, map[string]string{"app": "web", "disk": "fast"}) || len(claim.OwnerReferences) > 0 {
				t.Errorf("claim of %s is %+v", p.Name, claim)
			}
		}
		zero := int32(0)
		wantStatus := appsv1.StatefulSetStatus{
			ObservedGeneration: 1, Replicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, CurrentReplicas: 3, UpdatedReplicas: 3,
			CurrentRevision: status.UpdateRevision, UpdateRevision: status.UpdateRevision, CollisionCount: &zero,
		}
		if diff := cmp.Diff(wantStatus, status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		wantEvents := []string{
			"web Normal SuccessfulCreate: Create Claim data-web-0 Pod web-0 in StatefulSet web success",
			"web Normal SuccessfulCreate: Create Pod web-0 in StatefulSet web successful",
			"web Normal SuccessfulCreate: Create Claim data-web-1 Pod web-1 in StatefulSet web success",
			"web Normal SuccessfulCreate: Create Pod web-1 in StatefulSet web successful",
			"web Normal SuccessfulCreate: Create Claim data-web-2 Pod web-2 in StatefulSet web success",
			"web Normal SuccessfulCreate: Create Pod web-2 in StatefulSet web successful",
		}
		if diff := cmp.Diff(wantEvents, w.Events()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestOrderedReadyWaitsForEachPod(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.Start(controllertest.Running)
		begin(w, web(2, from(5)))
		want(t, "before the first is ready", podsOf(w), "web-5 i:1")
		w.SetPod("web-5", controllertest.Ready)
		w.Wait(time.Minute)
		want(t, "after", podsOf(w), "web-5 i:1, web-6 i:1")
		w.SetPod("web-6", controllertest.Ready)
		w.Wait(time.Minute)

		w.Events()
		w.SetPod("web-5", controllertest.Running)
		change(w, replicas(1))
		want(t, "scaled down with another not ready", podsOf(w), "web-5 i:1, web-6 i:1")
		w.SetPod("web-5", controllertest.Ready)
		w.Wait(time.Minute)
		want(t, "scaled down", podsOf(w), "web-5 i:1")
		if got := w.Events(); !slices.Equal(got, []string{"web Normal SuccessfulDelete: Delete Pod web-6 in StatefulSet web successful"}) {
			t.Errorf("events %q", got)
		}
	})
}

func TestParallelWaitsForNone(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.Start(controllertest.Running)
		begin(w, web(4, parallel))
		want(t, "none is ready", podsOf(w), "web-0 i:1, web-1 i:1, web-2 i:1, web-3 i:1")
		change(w, replicas(1))
		want(t, "scaled down", podsOf(w), "web-0 i:1")
	})
}

func TestPodsThatEndedAreReplaced(t *testing.T) {
	t.Parallel()
	for _, code := range []int32{0, 1} {
		play(t, func(w *world) {
			begin(w, web(2))
			was := controllertest.Get[*v1.Pod](w, "pods", "web-0").UID
			w.SetPod("web-0", controllertest.Ended(code))
			w.Wait(time.Minute)
			if p := controllertest.Get[*v1.Pod](w, "pods", "web-0"); p == nil || p.UID == was || p.Status.Phase != v1.PodRunning {
				t.Errorf("web-0 that ended with %d is %+v", code, p)
			}
		})
	}
}

func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		begin(w, web(3))
		first := get(w).Status.CurrentRevision
		change(w, image("i:2"), partition(2))
		want(t, "down to the partition", podsOf(w), "web-0 i:1, web-1 i:1, web-2 i:2")
		status := get(w).Status
		if status.CurrentRevision != first || status.UpdateRevision == first || status.CurrentReplicas != 2 || status.UpdatedReplicas != 1 {
			t.Errorf("status is %+v", status)
		}
		w.Delete("pods", "web-0", nil)
		w.Delete("pods", "web-2", nil)
		w.Wait(time.Minute)
		want(t, "after deletions", podsOf(w), "web-0 i:1, web-1 i:1, web-2 i:2")
		if p := controllertest.Get[*v1.Pod](w, "pods", "web-0"); p.Spec.Subdomain != "nginx" || p.Spec.Volumes[0].Name != "tmp" || p.Annotations["a"] != "<&>" || p.Labels[revisionLabel] != first {
			t.Errorf("web-0 of the older revision is %+v %+v", p.ObjectMeta, p.Spec)
		}
		w.Start(controllertest.Running)
		change(w, partition(0))
		want(t, "with one that does not get ready", podsOf(w), "web-0 i:1, web-1 i:2, web-2 i:2")
		w.SetPod("web-1", controllertest.Ready)
		w.Start(controllertest.Ready)
		w.Wait(time.Minute)
		want(t, "done", podsOf(w), "web-0 i:2, web-1 i:2, web-2 i:2")
		if status := get(w).Status; status.CurrentRevision != status.UpdateRevision || status.CurrentReplicas != 3 || status.UpdatedReplicas != 3 {
			t.Errorf("status is %+v", status)
		}

		// Back to the first template: its revision gets a new number.
		change(w, image("i:1"))
		want(t, "rolled back", podsOf(w), "web-0 i:1, web-1 i:1, web-2 i:1")
		if status := get(w).Status; status.CurrentRevision != first {
			t.Errorf("status is %+v, want revision %s", status, first)
		}
		numbers := map[string]int64{}
		for _, r := range controllertest.List[*appsv1.ControllerRevision](w, "controllerrevisions.apps") {
			numbers[r.Name] = r.Revision
		}
		if len(numbers) != 2 || numbers[first] != 3 {
			t.Errorf("revisions %v, want two, %s at 3", numbers, first)
		}
	})
}

func TestOnDelete(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		begin(w, web(2, onDelete))
		change(w, image("i:2"))
		want(t, "changed", podsOf(w), "web-0 i:1, web-1 i:1")
		w.Delete("pods", "web-1", nil)
		w.Wait(time.Minute)
		want(t, "deleted", podsOf(w), "web-0 i:1, web-1 i:2")
	})
}

func TestMinReadySeconds(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.Create("statefulsets.apps", web(2, minReady(30)))
		w.Wait(20 * time.Second)
		want(t, "after 20 s", podsOf(w), "web-0 i:1")
		if s := get(w).Status; s.ReadyReplicas != 1 || s.AvailableReplicas != 0 {
			t.Errorf("status after 20 s is %+v", s)
		}
		w.Wait(15 * time.Second)
		want(t, "after 35 s", podsOf(w), "web-0 i:1, web-1 i:1")
		w.Wait(time.Minute)
		if s := get(w).Status; s.AvailableReplicas != 2 {
			t.Errorf("status at last is %+v", s)
		}
	})
}

func TestRevisionsAreLimited(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		limit := int32(2)
		begin(w, web(1, func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = &limit }))
		for i := range 5 {
			change(w, image(fmt.Sprintf("i:%d", i+2)))
		}
		var numbers []int64
		for _, r := range controllertest.List[*appsv1.ControllerRevision](w, "controllerrevisions.apps") {
			numbers = append(numbers, r.Revision)
		}
		slices.Sort(numbers)
		if !slices.Equal(numbers, []int64{4, 5, 6}) {
			t.Errorf("revisions %v, want 4, 5 and 6: two besides the one in use", numbers)
		}
	})
}

// What stands beside the creation of a revision is stored where that is refused.
func TestNothingGoesForARevisionThatIsRefused(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		limit := int32(1)
		begin(w, web(2, func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = &limit }))
		change(w, image("i:2"))
		w.Refuse("controllerrevisions.apps", "exceeded quota")
		limit = 0
		change(w, image("i:3"), replicas(1), func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = &limit })
		want(t, "pods", podsOf(w), "web-0 i:2, web-1 i:2")
		if n := len(controllertest.List[*appsv1.ControllerRevision](w, "controllerrevisions.apps")); n != 2 {
			t.Errorf("%d revisions are left, want 2", n)
		}
		if s := get(w).Status; s.UpdateRevision != s.CurrentRevision {
			t.Errorf("status %+v, want no revision that is not there", s)
		}
		w.Refuse("controllerrevisions.apps", "")
		w.Wait(time.Hour)
		want(t, "pods at last", podsOf(w), "web-0 i:3")
	})
}

func TestABrokenPodIsReplacedWhereAsked(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		play(t, func(w *world) {
			begin(w, web(2, func(s *appsv1.StatefulSet) {
				if asked {
					s.Annotations[replaceBroken] = "true"
				}
			}))
			w.Start(controllertest.Running)
			change(w, image("broken"))
			want(t, "broken", podsOf(w), "web-0 i:1, web-1 broken")
			w.Start(controllertest.Ready)
			change(w, image("i:2"))
			if !asked {
				want(t, "mended, as with Kubernetes", podsOf(w), "web-0 i:1, web-1 broken")
				return
			}
			want(t, "mended", podsOf(w), "web-0 i:2, web-1 i:2")
		})
	}
}

func TestALargeSetComesInSeveralAnswers(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		begin(w, web(300, parallel, withClaims(keep, keep)))
		if s := get(w).Status; s.ReadyReplicas != 300 || s.Replicas != 300 {
			t.Errorf("status %+v, want 300 ready", s)
		}
		if n := len(controllertest.List[*v1.PersistentVolumeClaim](w, "persistentvolumeclaims")); n != 300 {
			t.Errorf("%d claims, want 300", n)
		}
	})
}
