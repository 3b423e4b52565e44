package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The name of a pod means the one that is there, not one that had it before.
func TestExplainMeansThePodThatIsThere(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	client := schedulable(t, kubeconfig, 2, 1)
	pods := client.CoreV1().Pods("default")
	now := int64(0)
	if err := pods.Delete(t.Context(), "p0", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", func() bool {
		out, err := berth(t, "explain", "pod/p0", "--kubeconfig", kubeconfig)
		return err == nil && strings.Contains(out, "(gone) was to go to")
	})
	other := onePod("p0")
	other.Spec.SchedulerName = "another"
	if _, err := pods.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if out, err := berth(t, "explain", "pod/p0", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), `no profile claims the pod's schedulerName: "another"`) {
		t.Errorf("explain tells of the pod that is gone: %v\n%s", err, out)
	}
}
