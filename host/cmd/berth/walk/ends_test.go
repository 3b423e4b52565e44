package walk_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// leaving is a pod that leaves a word in a folder of the machine before it ends.
func leaving(name, dir string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "out", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}}},
			Containers: []v1.Container{{
				Name: "main", Image: "berth.test/busybox:1",
				Command:      []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"},
				VolumeMounts: []v1.VolumeMount{{Name: "out", MountPath: "/out"}},
				Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{
					Command: []string{"sh", "-c", "echo goodbye > /out/$HOSTNAME"},
				}}},
			}},
		},
	}
}

// testDrain: kubectl drain respects a budget, and what it evicts ends in order.
func (c *cluster) testDrain(t *testing.T) {
	dir := t.TempDir()
	c.submit(t, leaving("guarded", dir))
	c.awaitPod(t, "guarded", "is ready", isReady)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guarded"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
		},
	}
	if _, err := c.client.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	drain := []string{"drain", "n1", "--ignore-daemonsets", "--delete-emptydir-data", "--force"}
	if said := c.mustFail(t, c.kubectl, append(drain, "--timeout=7s")...); !strings.Contains(said, "violate the pod's disruption budget") {
		t.Errorf("kubectl drain of a guarded pod says %q", said)
	}
	c.must(t, c.kubectl, "delete", "pdb", "guarded")
	if said := c.must(t, c.kubectl, append(drain, "--timeout=60s")...); !strings.Contains(said, "node/n1 drained") {
		t.Errorf("kubectl drain says %q", said)
	}
	wantGoodbye(t, dir, "guarded")
	c.must(t, c.kubectl, "uncordon", "n1")
}

// testStop: with --stop-pods the pods end in order before the host does, and it
// knows how.
func (c *cluster) testStop(t *testing.T) {
	dir := t.TempDir()
	c.submit(t, leaving("running", dir))
	c.awaitPod(t, "running", "is ready", isReady)
	c.end()
	wantGoodbye(t, dir, "running")
	c.start()
	p := c.awaitPod(t, "running", "has ended", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodFailed })
	if p.Status.Reason != "Terminated" || !slices.ContainsFunc(p.Status.Conditions, func(of v1.PodCondition) bool {
		return of.Type == v1.DisruptionTarget && of.Reason == v1.PodReasonTerminationByKubelet
	}) {
		t.Errorf("the status of a pod that was stopped with its node: %+v", p.Status)
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			t.Errorf("the container was not let end: %+v", s.State)
		}
	}
}

func wantGoodbye(t *testing.T, dir, pod string) {
	t.Helper()
	if said, err := os.ReadFile(filepath.Join(dir, pod)); err != nil || string(said) != "goodbye\n" {
		t.Errorf("the preStop hook of %s left %q, %v", pod, said, err)
	}
}
