package api_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/apitest"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const deploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: d}}
spec:
  REPLICAS
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: IMAGE}]}
`

func deploymentOf(replicas, image string) []byte {
	return []byte(strings.NewReplacer("REPLICAS", replicas, "IMAGE", image).Replace(deploymentYAML))
}

func applyAs(t *testing.T, c kubernetes.Interface, manager string, force bool, doc []byte) (int32, error) {
	t.Helper()
	d, err := c.AppsV1().Deployments("default").Patch(t.Context(), "d", types.ApplyPatchType, doc,
		metav1.PatchOptions{FieldManager: manager, Force: ptr.To(force)})
	if err != nil {
		return 0, err
	}
	return *d.Spec.Replicas, nil
}

func TestServerSideApplyOwnsFieldsAndFindsConflicts(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/json")
	want := func(step string, got int32, err error, replicas int32) {
		t.Helper()
		if err != nil || got != replicas {
			t.Fatalf("%s: replicas = %d, %v, want %d", step, got, err, replicas)
		}
	}
	got, err := applyAs(t, c, "one", false, deploymentOf("replicas: 3", "a:1"))
	want("create by apply", got, err, 3)
	if _, err = applyAs(t, c, "two", false, deploymentOf("replicas: 5", "a:1")); !apierrors.IsConflict(err) {
		t.Fatalf("apply of a field of another manager: %v, want Conflict", err)
	}
	if status, ok := err.(apierrors.APIStatus); !ok || len(status.Status().Details.Causes) != 1 || status.Status().Details.Causes[0].Field != ".spec.replicas" {
		t.Fatalf("the conflict names %+v, want .spec.replicas", err)
	}
	got, err = applyAs(t, c, "two", true, deploymentOf("replicas: 5", "a:1"))
	want("apply by force", got, err, 5)
	got, err = applyAs(t, c, "two", false, deploymentOf("", "a:1"))
	want("a field that its only manager no longer applies", got, err, 1)
}

func TestApplyAfterAClientThatNamedNoManagerConflictsWithWhatWasBefore(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/json")
	if _, err := applyAs(t, c, "one", false, deploymentOf("replicas: 3", "a:1")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Pods("default").Create(t.Context(), pod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.CoreV1().Pods("default").Patch(t.Context(), "p", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"app":"else"}}}`), metav1.PatchOptions{FieldManager: "late"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "before-first-apply") {
		t.Fatalf("apply = %v, %v, want a conflict with before-first-apply", got, err)
	}
}

func TestAutoscalersAreServedInBothVersions(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/vnd.kubernetes.protobuf")
	v1 := c.AutoscalingV1().HorizontalPodAutoscalers("default")
	_, err := v1.Create(t.Context(), &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "h"},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{MaxReplicas: 5, TargetCPUUtilizationPercentage: ptr.To[int32](70),
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "d", APIVersion: "apps/v1"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v2, err := c.AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "h", metav1.GetOptions{})
	if err != nil || len(v2.Spec.Metrics) != 1 || *v2.Spec.Metrics[0].Resource.Target.AverageUtilization != 70 {
		t.Fatalf("v2 shows %+v, %v", v2, err)
	}
	old, err := v1.Get(t.Context(), "h", metav1.GetOptions{})
	if err != nil || ptr.Deref(old.Spec.TargetCPUUtilizationPercentage, 0) != 70 {
		t.Fatalf("v1 shows %+v, %v", old.Spec, err)
	}
	list, err := v1.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || ptr.Deref(list.Items[0].Spec.TargetCPUUtilizationPercentage, 0) != 70 {
		t.Fatalf("v1 lists %+v, %v", list, err)
	}
}
