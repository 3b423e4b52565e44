package deployment_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/deployment"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/replicaset"
)

func web(replicas int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"note": "a \"b\""}},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "web:1", Args: []string{"<&>"}}}},
			},
		},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

func play(t *testing.T, test func(w *controllertest.World)) {
	t.Helper()
	controllertest.Play(t, []string{"Deployment", "ReplicaSet"}, test)
}

func get(w *controllertest.World) *appsv1.Deployment {
	return controllertest.Get[*appsv1.Deployment](w, "deployments.apps", "web")
}

func image(w *controllertest.World, name string) {
	controllertest.Change(w, "deployments.apps", "", "web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = name })
}

// sets are the ReplicaSets as "REVISION IMAGE REPLICAS", sorted.
func sets(w *controllertest.World) (out []string) {
	for _, rs := range controllertest.List[*appsv1.ReplicaSet](w, "replicasets.apps") {
		out = append(out, fmt.Sprintf("%s %s %d", rs.Annotations["deployment.kubernetes.io/revision"], rs.Spec.Template.Spec.Containers[0].Image, *rs.Spec.Replicas))
	}
	slices.Sort(out)
	return out
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func conditions(d *appsv1.Deployment) (out []string) {
	for _, c := range d.Status.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(out)
	return out
}

func TestADeploymentIsMadeRolledOutAndRolledBack(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("deployments.apps", web(10))
		w.Wait(time.Minute)
		same(t, "sets", []string{"1 web:1 10"}, sets(w))
		d := get(w)
		if s := d.Status; s.Replicas != 10 || s.UpdatedReplicas != 10 || s.AvailableReplicas != 10 || s.UnavailableReplicas != 0 || s.ObservedGeneration != d.Generation {
			t.Errorf("status %+v", s)
		}
		same(t, "conditions", []string{"Available True MinimumReplicasAvailable", "Progressing True NewReplicaSetAvailable"}, conditions(d))
		same(t, "revision", "1", d.Annotations["deployment.kubernetes.io/revision"])
		rs := controllertest.List[*appsv1.ReplicaSet](w, "replicasets.apps")[0]
		hash := rs.Labels["pod-template-hash"]
		if rs.Name != "web-"+hash || rs.Spec.Selector.MatchLabels["pod-template-hash"] != hash || rs.Spec.Template.Labels["pod-template-hash"] != hash || rs.Spec.Template.Annotations["note"] != "a \"b\"" {
			t.Errorf("ReplicaSet %s %+v %+v", rs.Name, rs.Spec.Selector, rs.Spec.Template.ObjectMeta)
		}
		if events := strings.Join(w.Events(), "\n"); !strings.Contains(events, "web Normal ScalingReplicaSet: Scaled up replica set web-"+hash+" from 0 to 10") {
			t.Errorf("events %s", events)
		}

		image(w, "web:2")
		w.Wait(time.Minute)
		same(t, "sets after a roll-out", []string{"1 web:1 0", "2 web:2 10"}, sets(w))
		image(w, "web:1")
		w.Wait(time.Minute)
		same(t, "sets after a roll-back", []string{"2 web:2 0", "3 web:1 10"}, sets(w))
		same(t, "revision", "3", get(w).Annotations["deployment.kubernetes.io/revision"])
		revision := w.Store.Revision()
		w.Wait(time.Hour)
		if w.Store.Revision() != revision {
			t.Errorf("it does not come to rest: %q", w.Events())
		}
	})
}

func TestARollOutKeepsToItsBounds(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("deployments.apps", web(10))
		w.Wait(time.Minute)
		w.Start(controllertest.Running) // the new ones never become ready
		image(w, "web:2")
		w.Wait(time.Minute)
		// A quarter up is three more, a quarter down two fewer.
		same(t, "sets that are stuck", []string{"1 web:1 8", "2 web:2 5"}, sets(w))
		w.Wait(11 * time.Minute)
		same(t, "conditions", []string{"Available True MinimumReplicasAvailable", "Progressing False ProgressDeadlineExceeded"}, conditions(get(w)))
		w.Start(controllertest.Ready)
		w.SetPods(nil, controllertest.Ready)
		w.Wait(time.Minute)
		same(t, "sets after all", []string{"1 web:1 0", "2 web:2 10"}, sets(w))
		same(t, "conditions after all", []string{"Available True MinimumReplicasAvailable", "Progressing True NewReplicaSetAvailable"}, conditions(get(w)))
	})
}

// A ReplicaSet that was told to shrink has all its pods in its status until it
// did: upstream counts on them, and takes as many once more.
func TestPodsThatAreAboutToGoAreNotCountedOn(t *testing.T) {
	t.Parallel()
	r := inventor{rand.New(rand.NewPCG(1, 1))}
	d := web(20)
	d.UID = "deployment"
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt32(5)), MaxUnavailable: ptr.To(intstr.FromInt32(5))}}
	old, newest := r.set(d, 0, 1), r.set(d, 1, 2)
	old.Spec.Replicas, old.Status.Replicas, old.Status.AvailableReplicas = ptr.To[int32](15), 20, 20
	newest.Spec.Replicas, newest.Status.Replicas, newest.Status.AvailableReplicas = ptr.To[int32](10), 5, 5
	for _, rs := range []*appsv1.ReplicaSet{old, newest} {
		rs.Annotations[desiredKey], rs.Annotations[maxKey] = "20", "25"
	}
	out, _ := guests(t, &state{deployment: d, sets: []*appsv1.ReplicaSet{old, newest}})
	if all, want := strings.Join(out, "\n"), "Scaled down replica set "+old.Name+" from 15 to 10"; !strings.Contains(all, want) {
		t.Errorf("%s\nlacks %q", all, want)
	}
}

// Nor is their place given away while they are there: upstream surges past its bound
// as long as a ReplicaSet has not deleted what it was told to.
func TestPodsThatAreAboutToGoHaveTheirPlace(t *testing.T) {
	t.Parallel()
	r := inventor{rand.New(rand.NewPCG(1, 1))}
	d := web(20)
	d.UID = "deployment"
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt32(5)), MaxUnavailable: ptr.To(intstr.FromInt32(5))}}
	old, newest := r.set(d, 0, 1), r.set(d, 1, 2)
	newest.Spec.Replicas, newest.Status.Replicas, newest.Status.AvailableReplicas = ptr.To[int32](5), 5, 5
	for _, rs := range []*appsv1.ReplicaSet{old, newest} {
		rs.Annotations[desiredKey], rs.Annotations[maxKey] = "20", "25"
	}
	for _, has := range []int32{20, 15} {
		old.Spec.Replicas, old.Status.Replicas, old.Status.AvailableReplicas = ptr.To[int32](15), has, has
		out, _ := guests(t, &state{deployment: d, sets: []*appsv1.ReplicaSet{old, newest}})
		if up := strings.Contains(strings.Join(out, "\n"), "Scaled up replica set"); up != (has == 15) {
			t.Errorf("with %d of 15 old pods still there: %q", has, out)
		}
	}
}

func TestScalingInTheMiddleOfARollOutIsProportional(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("deployments.apps", web(10))
		w.Wait(time.Minute)
		w.Start(controllertest.Running)
		image(w, "web:2")
		w.Wait(time.Minute)
		controllertest.Change(w, "deployments.apps", "", "web", func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Spec.Paused = ptr.To[int32](20), true
		})
		w.Wait(time.Minute)
		// 13 were allowed, 25 are: 8 become 15, 5 become 10.
		same(t, "sets", []string{"1 web:1 15", "2 web:2 10"}, sets(w))
		if got := conditions(get(w)); !slices.Contains(got, "Progressing Unknown DeploymentPaused") {
			t.Errorf("conditions %q", got)
		}
	})
}

func TestRecreateEndsAllBeforeItBegins(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("deployments.apps", web(3, func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }))
		w.Wait(time.Minute)
		mixed := false
		w.Start(func(p *v1.Pod) {
			for _, o := range controllertest.List[*v1.Pod](w, "pods") {
				mixed = mixed || o.Spec.Containers[0].Image != p.Spec.Containers[0].Image
			}
			controllertest.Ready(p)
		})
		image(w, "web:2")
		w.Wait(time.Minute)
		same(t, "sets", []string{"1 web:1 0", "2 web:2 3"}, sets(w))
		if mixed {
			t.Error("pods of two templates ran together")
		}
	})
}

// What stands beside the creation of a ReplicaSet is stored where that is refused.
func TestNothingGoesForAReplicaSetThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []appsv1.DeploymentStrategyType{appsv1.RollingUpdateDeploymentStrategyType, appsv1.RecreateDeploymentStrategyType} {
		for _, replicas := range []int32{4, 0} {
			if replicas > 0 && kind == appsv1.RecreateDeploymentStrategyType {
				continue // it ends the old ones first
			}
			t.Run(fmt.Sprintf("%s of %d", kind, replicas), func(t *testing.T) {
				t.Parallel()
				play(t, func(w *controllertest.World) { refuseASet(t, w, kind, replicas) })
			})
		}
	}
}

func refuseASet(t *testing.T, w *controllertest.World, kind appsv1.DeploymentStrategyType, replicas int32) {
	w.Create("deployments.apps", web(replicas, func(d *appsv1.Deployment) {
		d.Spec.Strategy.Type, d.Spec.RevisionHistoryLimit = kind, ptr.To[int32](1)
	}))
	w.Wait(time.Minute)
	image(w, "web:2")
	w.Wait(time.Minute)
	before := []string{"1 web:1 0", fmt.Sprintf("2 web:2 %d", replicas)}
	same(t, "sets", before, sets(w))

	w.Refuse("replicasets.apps", "exceeded quota")
	w.Events()
	image(w, "web:3")
	w.Wait(time.Minute)
	same(t, "sets beside one that is refused", before, sets(w))
	d := get(w)
	same(t, "revision", "2", d.Annotations[revisionKey])
	if list := conditions(d); !slices.Contains(list, "Progressing False ReplicaSetCreateError") {
		t.Errorf("conditions %q", list)
	}
	if events := strings.Join(w.Events(), "\n"); strings.Contains(events, "ScalingReplicaSet") || !strings.Contains(events, "exceeded quota") {
		t.Errorf("events %s", events)
	}

	w.Refuse("replicasets.apps", "")
	w.Wait(time.Hour)
	same(t, "sets after all", []string{"2 web:2 0", fmt.Sprintf("3 web:3 %d", replicas)}, sets(w))
	same(t, "conditions after all", []string{"Available True MinimumReplicasAvailable", "Progressing True NewReplicaSetAvailable"}, conditions(get(w)))
	told := strings.Count(strings.Join(w.Events(), "\n"), "from 0 to ")
	if want := int(min(replicas, 1)); told != want {
		t.Errorf("told %d times that it is made, want %d", told, want)
	}
}

// A status from before the ReplicaSet was last scaled may not count pods that were
// just made.
func TestRecreateWaitsForAStatusOfTheReplicaSetAsItIs(t *testing.T) {
	t.Parallel()
	r := inventor{rand.New(rand.NewPCG(1, 1))}
	d := web(3)
	d.UID = "deployment"
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	old := r.set(d, 0, 1)
	old.Spec.Replicas, old.Status.Replicas, old.Status.AvailableReplicas, old.Generation = new(int32), 0, 0, 3
	for observed := range int64(4) {
		old.Status.ObservedGeneration = observed
		out := controllertest.Ask(t, "Deployment", controllertest.BubbleTime, d, old)
		if made := len(out.Create) > 0; made != (observed == 3) {
			t.Errorf("generation 3 seen at %d: a new ReplicaSet is made: %t", observed, made)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("deployments.apps", web(2, func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](2) }))
		for i := range 6 {
			w.Wait(time.Minute)
			image(w, fmt.Sprintf("web:%d", i+2))
		}
		w.Wait(time.Minute)
		same(t, "sets", []string{"5 web:5 0", "6 web:6 0", "7 web:7 2"}, sets(w))
	})
}

func TestOrphansAreAdopted(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("deployments.apps", web(2))
		w.Wait(time.Minute)
		w.Delete("deployments.apps", "web", &metav1.DeleteOptions{})
		controllertest.Change(w, "replicasets.apps", "", controllertest.List[*appsv1.ReplicaSet](w, "replicasets.apps")[0].Name, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil })
		w.Create("deployments.apps", web(4))
		w.Wait(time.Minute)
		same(t, "sets", []string{"1 web:1 4"}, sets(w))
	})
}

// A Deployment that asks for it goes back when its deadline passes, once, and to
// the very template.
// kubectl label rs web-abc app=aside takes a ReplicaSet aside, with its name.
func TestANameThatAnotherHasIsPassedOver(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("deployments.apps", web(3))
		w.Wait(time.Minute)
		aside := controllertest.List[*appsv1.ReplicaSet](w, "replicasets.apps")[0].Name
		controllertest.Change(w, "replicasets.apps", "", aside, func(rs *appsv1.ReplicaSet) { rs.Labels["app"] = "aside" })
		w.Wait(time.Minute)
		same(t, "sets", []string{"1 web:1 3", "1 web:1 3"}, sets(w))
		d := get(w)
		if n := d.Status.CollisionCount; n == nil || *n != 1 {
			t.Errorf("collisionCount %v, want 1", ptr.Deref(n, 0))
		}
		same(t, "conditions", []string{"Available True MinimumReplicasAvailable", "Progressing True NewReplicaSetAvailable"}, conditions(d))
		told := map[string]int{}
		for _, e := range w.Events() {
			if _, name, ok := strings.Cut(e, "Scaled up replica set "); ok {
				told[name]++
			}
		}
		if len(told) != 2 {
			t.Errorf("told of %v, want of two ReplicaSets", told)
		}
	})
}

// What a Deployment of the same name left behind may be on its way out.
func TestAYoungDeploymentWaitsForAName(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("deployments.apps", web(3))
		w.Wait(time.Second)
		left := controllertest.List[*appsv1.ReplicaSet](w, "replicasets.apps")[0]
		w.Delete("deployments.apps", "web", &metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)})
		controllertest.Change(w, "replicasets.apps", "", left.Name, func(rs *appsv1.ReplicaSet) {
			rs.Labels["app"], rs.OwnerReferences, rs.Finalizers = "aside", nil, nil
		})
		controllertest.Change(w, "deployments.apps", "", "web", func(d *appsv1.Deployment) { d.Finalizers = nil })
		w.Create("deployments.apps", web(3))
		w.Wait(10 * time.Second)
		if n := get(w).Status.CollisionCount; n != nil {
			t.Errorf("collisionCount %d", *n)
		}
		w.Delete("replicasets.apps", left.Name, nil)
		w.Wait(time.Minute)
		if n := get(w).Status.CollisionCount; n != nil {
			t.Errorf("collisionCount %d", *n)
		}
		same(t, "sets", []string{"1 web:1 3"}, sets(w))
	})
}

func TestADeploymentGoesBackByItself(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("deployments.apps", web(4, func(d *appsv1.Deployment) {
			d.Annotations = map[string]string{"deployment.berth.dev/rollback-on-deadline": "true"}
			d.Spec.Template.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To[int64](7), FSGroup: ptr.To[int64](8)}
		}))
		w.Wait(time.Minute)
		before := get(w).Spec.Template
		w.Start(controllertest.Running)
		controllertest.Change(w, "deployments.apps", "", "web", func(d *appsv1.Deployment) {
			s := &d.Spec.Template.Spec
			s.Containers[0].Image, s.Hostname, s.SecurityContext = "web:2", "h", &v1.PodSecurityContext{RunAsUser: ptr.To[int64](9)}
			d.Spec.Template.Annotations["more"] = "yes"
		})
		w.Wait(time.Minute)
		w.Events()
		w.Wait(11 * time.Minute)
		d := get(w)
		same(t, "template", before, d.Spec.Template)
		same(t, "sets", []string{"2 web:2 0", "3 web:1 4"}, sets(w))
		failed := d.Annotations["deployment.berth.dev/rolled-back-from"]
		if events := strings.Join(w.Events(), "\n"); !strings.Contains(events, `web Warning DeploymentRollback: Rolled back deployment "web" to revision 1: `+failed+" has timed out progressing") {
			t.Errorf("events %s", events)
		}
		// Nothing is left to go back to: what it went back to fails, too.
		w.SetPods(nil, controllertest.Running)
		w.Delete("pods", controllertest.List[*v1.Pod](w, "pods")[0].Name, nil)
		w.Wait(30 * time.Minute)
		same(t, "template at last", before, get(w).Spec.Template)
	})
}
