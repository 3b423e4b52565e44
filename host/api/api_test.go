package api_test

import (
	"testing"

	"github.com/berth-dev/berth/host/api/apitest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36"}}},
	}
}

func client(t testing.TB, s *apitest.Server, contentType string) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.Config(contentType))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestATypedClientCreatesChangesAndDeletes(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			s := apitest.Start(t)
			pods := client(t, s, contentType).CoreV1().Pods("default")
			ctx := t.Context()
			made, err := pods.Create(ctx, pod("a"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if made.UID == "" || made.ResourceVersion == "" || made.Spec.RestartPolicy != corev1.RestartPolicyAlways || made.Status.Phase != corev1.PodPending {
				t.Fatalf("created pod lacks defaults: %+v", made)
			}
			got, err := pods.Get(ctx, "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(made, got); diff != "" {
				t.Fatalf("get differs from create:\n%s", diff)
			}
			if _, err := pods.Create(ctx, pod("a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Fatalf("second create: %v, want AlreadyExists", err)
			}
			patched, err := pods.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
			if err != nil || patched.Labels["x"] != "y" {
				t.Fatalf("patch: %v, %v", patched.Labels, err)
			}
			got.Labels = map[string]string{"stale": "yes"}
			if _, err := pods.Update(ctx, got, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Fatalf("update from an old state: %v, want Conflict", err)
			}
			list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "x=y"})
			if err != nil || len(list.Items) != 1 {
				t.Fatalf("list: %d items, %v", len(list.Items), err)
			}
			if err := pods.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := pods.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Fatalf("get after delete: %v, want NotFound", err)
			}
		})
	}
}
