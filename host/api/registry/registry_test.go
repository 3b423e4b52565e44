package registry

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/store"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

func mustCreate(t *testing.T, reg *Registry, resource string, obj store.Object) store.Object {
	t.Helper()
	made, err := reg.Create(t.Context(), On(resource, "ns", ""), obj)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestNamesAreGenerated(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	seen := map[string]bool{}
	for range 20 {
		obj := mustCreate(t, reg, "configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}})
		if !strings.HasPrefix(obj.GetName(), "x-") || seen[obj.GetName()] {
			t.Errorf("generated %q", obj.GetName())
		}
		seen[obj.GetName()] = true
	}
}

func TestADryRunDoesEverythingButTheWrite(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	r := On("configmaps", "ns", "")
	r.DryRun = true
	made, err := reg.Create(t.Context(), r, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	if err != nil || made.GetUID() == "" {
		t.Fatalf("dry run = %v, %v", made, err)
	}
	if _, err := reg.Get(t.Context(), On("configmaps", "ns", "a")); !apierrors.IsNotFound(err) {
		t.Errorf("get after a dry run: %v, want NotFound", err)
	}
	if _, err := reg.Create(t.Context(), r, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "A_B"}}); !apierrors.IsInvalid(err) {
		t.Errorf("dry run of something invalid: %v, want Invalid", err)
	}
}

func TestGenerationCountsSpecsAndRevisionsCountChanges(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	labels := map[string]string{"a": "b"}
	mustCreate(t, reg, "deployments.apps", &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}})
	patch := func(sub, doc string) store.Object {
		t.Helper()
		r := On("deployments.apps", "ns", "d")
		r.Subresource = sub
		obj, _, err := reg.Patch(t.Context(), r, Patch{Type: types.MergePatchType, Data: []byte(doc)})
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	one := patch("", `{"spec":{"replicas":3}}`)
	if one.GetGeneration() != 2 {
		t.Errorf("generation = %d after a change of the spec, want 2", one.GetGeneration())
	}
	if same := patch("", `{"spec":{"replicas":3}}`); same.GetResourceVersion() != one.GetResourceVersion() {
		t.Errorf("a change of nothing moved the version from %s to %s", one.GetResourceVersion(), same.GetResourceVersion())
	}
	two := patch("status", `{"spec":{"replicas":9},"status":{"replicas":2}}`).(*appsv1.Deployment)
	if two.Generation != 2 || *two.Spec.Replicas != 3 || two.Status.Replicas != 2 {
		t.Errorf("status changed generation %d and spec %d", two.Generation, *two.Spec.Replicas)
	}
	if three := patch("", `{"status":{"replicas":7}}`).(*appsv1.Deployment); three.Status.Replicas != 2 {
		t.Errorf("status = %d after a change through the object, want 2", three.Status.Replicas)
	}
}

func TestDeletionWaitsForGraceAndFinalizers(t *testing.T) {
	t.Parallel()
	grace := func(seconds int64) *metav1.DeleteOptions { return &metav1.DeleteOptions{GracePeriodSeconds: &seconds} }
	other := types.UID("other")
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		opts   []*metav1.DeleteOptions
		gone   bool
		period int64
		err    func(error) bool
	}{
		"a pod that nobody runs goes at once":     {newPod("p", ""), []*metav1.DeleteOptions{{}}, true, 0, nil},
		"a pod on a node gets its time":           {newPod("p", "n"), []*metav1.DeleteOptions{{}}, false, 30, nil},
		"a pod gets the time that is asked for":   {newPod("p", "n"), []*metav1.DeleteOptions{grace(5)}, false, 5, nil},
		"without grace it goes at once":           {newPod("p", "n"), []*metav1.DeleteOptions{grace(0)}, true, 0, nil},
		"the time can only become shorter":        {newPod("p", "n"), []*metav1.DeleteOptions{grace(5), grace(20)}, false, 5, nil},
		"and it can become shorter":               {newPod("p", "n"), []*metav1.DeleteOptions{grace(20), grace(5)}, false, 5, nil},
		"the agent ends it by a deletion without": {newPod("p", "n"), []*metav1.DeleteOptions{{}, grace(0)}, true, 0, nil},
		"another uid is meant":                    {newPod("p", "n"), []*metav1.DeleteOptions{{Preconditions: &metav1.Preconditions{UID: &other}}}, false, 0, apierrors.IsConflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := openRegistry(t)
			mustCreate(t, reg, "pods", c.pod)
			var obj store.Object
			var gone bool
			var err error
			for _, o := range c.opts {
				obj, gone, err = reg.Delete(t.Context(), On("pods", "ns", "p"), o)
			}
			if c.err != nil {
				if !c.err(err) {
					t.Errorf("Delete = %v", err)
				}
				return
			}
			if err != nil || gone != c.gone {
				t.Fatalf("Delete = %v gone, %v, want %v", gone, err, c.gone)
			}
			if !gone && ptr.Deref(obj.GetDeletionGracePeriodSeconds(), -1) != c.period {
				t.Errorf("grace = %v, want %d", obj.GetDeletionGracePeriodSeconds(), c.period)
			}
		})
	}
}

func TestTheLastFinalizerLetsGo(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	mustCreate(t, reg, "configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{"example.com/hold"}}})
	r := On("configmaps", "ns", "c")
	if _, gone, err := reg.Delete(t.Context(), r, nil); err != nil || gone {
		t.Fatalf("Delete = %v, %v, want held", gone, err)
	}
	if _, _, err := reg.Patch(t.Context(), r, Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"finalizers":["example.com/hold","example.com/new"]}}`)}); !apierrors.IsInvalid(err) {
		t.Errorf("a finalizer was added to what is deleted: %v, want Invalid", err)
	}
	if _, _, err := reg.Patch(t.Context(), r, Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"finalizers":null}}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Get(t.Context(), r); !apierrors.IsNotFound(err) {
		t.Errorf("get = %v, want NotFound", err)
	}
}

// gatekeeper notes what admission is asked, and refuses on demand.
type gatekeeper struct {
	refuse     error
	rolledBack int
	also       []store.Op
}

func (g *gatekeeper) Admit(_ context.Context, a *Attributes) error {
	a.OnRollback(func() { g.rolledBack++ })
	a.Also(g.also...)
	a.Warn("watch out")
	return nil
}

func (g *gatekeeper) Validate(context.Context, *Attributes) error { return g.refuse }

func TestAdmissionRefusesGivesBackAndWritesAlong(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	g := &gatekeeper{refuse: errors.New("no")}
	reg.admission = g
	var warned []string
	r := On("configmaps", "ns", "")
	r.Warn = func(text string) { warned = append(warned, text) }
	_, err := reg.Create(t.Context(), r, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	if !apierrors.IsForbidden(err) || g.rolledBack != 1 {
		t.Errorf("refused = %v with %d rolled back, want Forbidden and 1", err, g.rolledBack)
	}
	g.refuse = nil
	beside := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "beside", Namespace: "ns", UID: "u"}}
	g.also = []store.Op{{Kind: store.Create, Key: r.Kind.Key("ns", "beside"), Object: beside}}
	made, err := reg.Create(t.Context(), r, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	if err != nil || g.rolledBack != 1 {
		t.Fatalf("create = %v with %d rolled back", err, g.rolledBack)
	}
	other, err := reg.Get(t.Context(), On("configmaps", "ns", "beside"))
	if err != nil {
		t.Fatal(err)
	}
	// One transaction gives its objects revisions that follow on each other.
	first, _ := ParseVersion(made.GetResourceVersion())
	if next, err := ParseVersion(other.GetResourceVersion()); err != nil || next != first+1 {
		t.Errorf("what was written along has revision %d (%v), want %d: the same transaction", next, err, first+1)
	}
	if len(warned) == 0 || warned[0] != "watch out" {
		t.Errorf("warnings = %v", warned)
	}
}

func TestReplicasShareNoFate(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		mustCreate(t, reg, "pods", newPod(name, ""))
	}
	r := On("pods", "ns", "c")
	change := Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"of":"c"}},"spec":{"containers":[{"name":"c","image":"changed"}]}}`)}
	if _, _, err := reg.Patch(t.Context(), r, change); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, reg, "pods", newPod("e", ""))
	for _, name := range []string{"a", "b", "d", "e"} {
		obj, err := reg.Get(t.Context(), On("pods", "ns", name))
		if err != nil {
			t.Fatal(err)
		}
		if pod := obj.(*corev1.Pod); pod.Spec.Containers[0].Image != "i" || len(pod.Labels) > 0 {
			t.Errorf("pod %s has image %q and labels %v after another one was changed", name, pod.Spec.Containers[0].Image, pod.Labels)
		}
	}
}

func TestABindThatFailsGivesItsClaimBack(t *testing.T) {
	t.Parallel()
	reg := openRegistry(t)
	mustCreate(t, reg, "pods", newPod("p", ""))
	var told []error
	reg.claim = func(ctx context.Context, pod *corev1.Pod, _ string) (func(error), error) {
		_, _, err := reg.Delete(ctx, On("pods", pod.Namespace, pod.Name), nil)
		return func(err error) { told = append(told, err) }, err
	}
	err := reg.BindPod(t.Context(), On("pods", "ns", "p"), &corev1.Binding{Target: corev1.ObjectReference{Name: "n"}})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("bind of a pod that is deleted meanwhile = %v, want NotFound", err)
	}
	if len(told) != 1 || told[0] == nil {
		t.Errorf("the claim heard %v, want that the bind failed", told)
	}
}

func TestABindEndsANomination(t *testing.T) {
	t.Parallel()
	pod := newPod("p", "")
	pod.Status.NominatedNodeName = "other"
	made, err := bound(pod, &corev1.Binding{Target: corev1.ObjectReference{Name: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	if on := made.(*corev1.Pod).Status.NominatedNodeName; on != "" {
		t.Errorf("a bound pod is nominated to %q", on)
	}
}
