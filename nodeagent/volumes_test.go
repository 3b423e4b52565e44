package nodeagent_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAVolumeOfAnotherNodeIsNotMounted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	kind := v1.HostPathDirectoryOrCreate
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.HostPath = &v1.HostPathVolumeSource{Path: t.TempDir(), Type: &kind}
	pv.Spec.ClaimRef = &v1.ObjectReference{UID: "c1"}
	pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{"n2"}}},
	}}}}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "c1"}}
	claim.Spec.VolumeName, claim.Status.Phase = "pv", v1.ClaimBound
	if _, err := m.api.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.api.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := newPod("p", "sleep 600")
	p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	m.create(p)
	m.told("FailedMount", `MountVolume.SetUp failed for volume "v": volume pv: its node affinity does not match this node: no matching NodeSelectorTerms`)
	m.terminate("p", 1)
	m.awaitGone("p")
}

func TestMountsAreReadOnlyRecursively(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	pod := func(name string, mode v1.RecursiveReadOnlyMode) *v1.Pod {
		p := newPod(name, "sleep 600")
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: &mode}}
		return p
	}
	is := func(mode v1.RecursiveReadOnlyMode) func(*v1.Pod) bool {
		return func(p *v1.Pod) bool {
			return ready(p) && *p.Status.ContainerStatuses[0].VolumeMounts[0].RecursiveReadOnly == mode
		}
	}
	m.create(pod("a", v1.RecursiveReadOnlyEnabled))
	m.await("a", "mounted", is(v1.RecursiveReadOnlyEnabled))
	m.stop()
	m.runtime.NoRecursiveReadOnly = true
	m.start()
	m.create(pod("b", v1.RecursiveReadOnlyEnabled))
	m.await("b", "refused", waitsFor("CreateContainerConfigError"))
	m.create(pod("c", v1.RecursiveReadOnlyIfPossible))
	m.await("c", "mounted", is(v1.RecursiveReadOnlyDisabled))
	for _, name := range []string{"a", "b", "c"} {
		m.terminate(name, 1)
		m.awaitGone(name)
	}
}
