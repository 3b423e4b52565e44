package host_test

import (
	"encoding/json"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/polltest"
)

// Other limits are another opening of the same module and config. Its driver
// must not go on with the one before, which is closed in the end.
func TestAControllerGoesOnAfterItsLimitsHaveChanged(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir())
	const path = "/apis/policy.berth.dev/v1alpha1/policies/ReplicaSet"
	for i := range 4 {
		limited(t, serving, path, int32(6+i))
	}
	polltest.Pass(4 * time.Second) // what left lives on for two
	replicas := int32(2)
	labels := map[string]string{"app": "web"}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: plainPod("").Spec},
	}}
	if _, err := client.AppsV1().ReplicaSets("default").Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the ReplicaSet has its pods", func() bool {
		list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == int(replicas)
	})
}

// limited gives a Policy another budget and waits until it is live by it.
func limited(t *testing.T, serving host.Serving, path string, milliseconds int32) {
	t.Helper()
	var p v1alpha1.Policy
	askJSON(t, serving, "GET", path, "", &p)
	p.Spec.Limits = &v1alpha1.PolicyLimits{CallMilliseconds: milliseconds}
	body, err := json.Marshal(&p)
	if err != nil {
		t.Fatal(err)
	}
	if code, text := ask(t, serving, "PUT", path, string(body)); code != 200 {
		t.Fatalf("PUT = %d %s", code, text)
	}
	if !polltest.Within(time.Minute, func() bool {
		askJSON(t, serving, "GET", path, "", &p)
		return p.Status.ObservedGeneration == p.Generation
	}) {
		t.Fatalf("generation %d is not taken up: %+v", p.Generation, p.Status)
	}
}

// The claim of an ephemeral volume is made, bound with its pod, and goes with it.
func TestAPodWithAnEphemeralVolumeIsBoundAndTakesItsClaimAlong(t *testing.T) {
	t.Parallel()
	client, _, _ := start(t, t.TempDir())
	createNode(t, client, "n1")
	pod := plainPod("web")
	pod.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
		VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	}}}}
	create(t, client, pod)
	bound(t, client, "web")
	claims := client.CoreV1().PersistentVolumeClaims("default")
	claim, err := claims.Get(t.Context(), "web-scratch", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Status.Phase != v1.ClaimBound {
		t.Errorf("the claim is %s, want Bound", claim.Status.Phase)
	}
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "web", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the claim is gone", func() bool {
		_, err := claims.Get(t.Context(), "web-scratch", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
