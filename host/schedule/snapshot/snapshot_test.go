package snapshot_test

import (
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestGoesBackInTime makes random changes and then looks at each of the former
// states again.
func TestGoesBackInTime(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	c := snapshot.New(0)
	past := map[uint64][]string{0: policytest.Summary(c)}
	for step := range 400 {
		policytest.Walk(r, c, step)
		past[c.Seq()] = policytest.Summary(c)
	}
	seen := 0
	for seq := range c.Seq() + 1 {
		want, ok := past[seq]
		if !ok {
			continue
		}
		view, ok := c.At(seq)
		if !ok {
			t.Fatalf("position %d of %d is gone", seq, c.Seq())
		}
		seen++
		if diff := cmp.Diff(want, policytest.Summary(view), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("position %d (-want +got):\n%s", seq, diff)
		}
		if _, ok := view.Since(seq + 1); ok {
			t.Fatalf("a view at %d tells what comes after it", seq)
		}
	}
	if seen < 200 {
		t.Errorf("only %d positions were looked at", seen)
	}
}

// TestThePresentTellsWhatCameLately: a view of the present knows the way from
// where followers stand, and keeps it while the log goes on.
func TestThePresentTellsWhatCameLately(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	c := snapshot.New(1 << 14)
	type known struct {
		view *snapshot.View
		from uint64
		want []string
		ok   bool
	}
	var all []known
	for step := range 600 {
		policytest.Walk(r, c, step)
		from := c.Seq() - min(c.Seq(), uint64(r.IntN(40)))
		deltas, ok := c.Since(from)
		all = append(all, known{c.Now(), from, policytest.ToldAll(deltas.Whole()), ok})
	}
	told := map[bool]int{}
	for _, k := range all {
		deltas, ok := k.view.Since(k.from)
		if diff := cmp.Diff(k.want, policytest.ToldAll(deltas.Whole())); ok != k.ok || diff != "" {
			t.Fatalf("from %d to %d: %v, want %v (-want +got):\n%s", k.from, k.view.Seq(), ok, k.ok, diff)
		}
		told[ok]++
	}
	if told[true] < 100 || told[false] < 100 {
		t.Errorf("the log was long enough %d times and too short %d times", told[true], told[false])
	}
}

// TestDeltasRebuildTheState follows the log as a policy instance does.
func TestDeltasRebuildTheState(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	c := snapshot.New(1 << 14)
	rows := map[int32]*snapshot.Row{}
	pods := map[types.UID]int32{}
	seq, bases := uint64(0), 0
	take := func(d snapshot.Delta) bool {
		switch d.Kind {
		case snapshot.RowUpsert:
			rows[d.Slot] = d.Row
		case snapshot.RowRemove:
			delete(rows, d.Slot)
		case snapshot.PodPlaced:
			pods[d.Pod.UID()] = d.Slot
		case snapshot.PodRemoved:
			delete(pods, d.Pod.UID())
		}
		return true
	}
	for step := range 3000 {
		policytest.Walk(r, c, step)
		if r.IntN(30) > 0 {
			continue
		}
		deltas, ok := c.Since(seq)
		if !ok {
			clear(rows)
			clear(pods)
			bases++
			c.Base(take)
		}
		last := seq
		for d := range deltas.All() {
			if d.Seq < last || d.Seq > last+1 {
				t.Fatalf("delta %d follows %d", d.Seq, last)
			}
			last = d.Seq
			take(*d)
		}
		seq = c.Seq()
		if c.Pods() != len(pods) {
			t.Fatalf("step %d: %d pods are placed, the deltas say %d", step, c.Pods(), len(pods))
		}
		for slot := range c.Slots() {
			if c.Row(slot) != rows[slot] {
				t.Fatalf("step %d: slot %d is not what the deltas say", step, slot)
			}
			if row := c.Row(slot); row != nil {
				for _, p := range row.Pods {
					if at, ok := pods[p.UID()]; !ok || at != slot {
						t.Fatalf("step %d: pod %s is at %d, %v", step, p.UID(), at, ok)
					}
				}
			}
		}
	}
	if bases == 0 {
		t.Error("the log was never too short")
	}
}

func TestReplicasHashAlike(t *testing.T) {
	t.Parallel()
	replica := func(name string, change func(*v1.Pod)) *snapshot.Pod {
		return snapshot.NewPod(policytest.Pod(name, "1", "1Gi", func(p *v1.Pod) {
			p.Labels = map[string]string{"app": "x", "tier": "y"}
			p.Spec.Volumes = []v1.Volume{{Name: tokenVolume(name), VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}}}
			if change != nil {
				change(p)
			}
		}))
	}
	one := replica("web-7f9-abcde", nil)
	if other := replica("web-7f9-fghij", nil); one.Hash != other.Hash {
		t.Errorf("two replicas hash %x and %x", one.Hash, other.Hash)
	}
	tests := []struct {
		name   string
		group  abi.Groups
		change func(*v1.Pod)
	}{
		{"label", abi.PodLabels, func(p *v1.Pod) { p.Labels["app"] = "z" }},
		{"annotation", abi.PodAnnotations, func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} }},
		{"request", abi.PodRequests, func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") }},
		{"limit that ends best effort", abi.PodRequests, func(p *v1.Pod) { n := int32(3); p.Spec.Priority = &n }},
		{"selector", abi.PodAffinity, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }},
		{"toleration", abi.PodTolerations, func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "a"}} }},
		{"port", abi.PodPorts, func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} }},
		{"image", abi.PodImages, func(p *v1.Pod) { p.Spec.Containers[0].Image = "other" }},
		{"volume", abi.PodVolumes, func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "d", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
			}})
		}},
	}
	for _, tt := range tests {
		other := replica("web-7f9-klmno", tt.change)
		for i := range one.Hash {
			group := abi.Groups(1) << i
			if differs := one.Hash[i] != other.Hash[i]; differs != (group == tt.group) {
				t.Errorf("another %s: the hash of %s differs: %v", tt.name, abi.GroupNames[i], differs)
			}
		}
	}
}

func tokenVolume(name string) string { return "kube-api-access-" + name[len(name)-5:] }

func TestSumsRequestsByKubernetesRules(t *testing.T) {
	t.Parallel()
	always := v1.ContainerRestartPolicyAlways
	container := func(cpu string) v1.Container {
		c := v1.Container{}
		if cpu != "" {
			c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
		}
		return c
	}
	sidecar := container("300m")
	sidecar.RestartPolicy = &always
	tests := []struct {
		name      string
		spec      v1.PodSpec
		real, non int64
	}{
		{"containers are summed", v1.PodSpec{Containers: []v1.Container{container("1"), container("500m")}}, 1500, 1500},
		{"a container without a request counts for scoring", v1.PodSpec{Containers: []v1.Container{container(""), container("1")}}, 1000, 1100},
		{"an explicit zero stays zero", v1.PodSpec{Containers: []v1.Container{container("0")}}, 0, 0},
		{"init containers count at their peak", v1.PodSpec{InitContainers: []v1.Container{container("2"), container("1")}, Containers: []v1.Container{container("1")}}, 2000, 2000},
		{"sidecars are added", v1.PodSpec{InitContainers: []v1.Container{sidecar}, Containers: []v1.Container{container("1")}}, 1300, 1300},
		{"overhead is added", v1.PodSpec{Overhead: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m")}, Containers: []v1.Container{container("1")}}, 1010, 1010},
		{"the pod's level comes first", v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}}, Containers: []v1.Container{container("1")}}, 3000, 3000},
		{"fractions are summed up before they are rounded", v1.PodSpec{Containers: []v1.Container{container("1500u"), container("1500u")}}, 3, 3},
		{"what is too much saturates", v1.PodSpec{Containers: []v1.Container{container("9e15"), container("9e30")}}, snapshot.MaxRequest, snapshot.MaxRequest},
		{"less than nothing is nothing", v1.PodSpec{Containers: []v1.Container{container("-5")}}, 0, 0},
		{"fractions are rounded up", v1.PodSpec{Containers: []v1.Container{container("1u")}}, 1, 1},
	}
	for _, tt := range tests {
		p := snapshot.NewPod(&v1.Pod{Spec: tt.spec})
		if p.Requests.MilliCPU != tt.real || p.NonZero.MilliCPU != tt.non {
			t.Errorf("%s: requests %d, for scoring %d, want %d and %d", tt.name, p.Requests.MilliCPU, p.NonZero.MilliCPU, tt.real, tt.non)
		}
	}
}

// NodeResourcesFit of kube-scheduler 1.36 scores a pod without what it asks for
// as a whole, though it counts that once the pod is placed.
func TestAPodIsWeighedByItsContainers(t *testing.T) {
	t.Parallel()
	one, three := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}, v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}
	p := snapshot.NewPod(&v1.Pod{Spec: v1.PodSpec{
		Resources: &v1.ResourceRequirements{Requests: three}, Overhead: one,
		Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: one}}, {}},
	}})
	if p.NonZero.MilliCPU != 4000 || p.Weighed.MilliCPU != 2100 {
		t.Errorf("counts %d, is weighed with %d, want 4000 and 2100", p.NonZero.MilliCPU, p.Weighed.MilliCPU)
	}
}

func TestTellsWhichGroupsOfANodeChanged(t *testing.T) {
	t.Parallel()
	c := snapshot.New(0)
	c.UpsertNode(policytest.Node("a", "4", "8Gi", 10, nil))
	tests := []struct {
		name   string
		want   abi.Groups
		change func(*v1.Node)
	}{
		{"nothing", 0, func(*v1.Node) {}},
		{"a heartbeat", 0, func(n *v1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }},
		{"a label", abi.NodeLabels, func(n *v1.Node) { n.Labels["x"] = "y" }},
		{"a taint", abi.NodeTaints | abi.NodeLabels, func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k"}} }},
		{"cordoned", abi.NodeTaints, func(n *v1.Node) { n.Spec.Unschedulable = true }},
		{"not ready", abi.NodeConditions | abi.NodeTaints, func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionFalse }},
		{"less room", abi.NodeCapacity | abi.NodeConditions, func(n *v1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("1") }},
	}
	for _, tt := range tests {
		if got := c.UpsertNode(policytest.Node("a", "4", "8Gi", 10, tt.change)); got != tt.want {
			t.Errorf("%s: groups %b, want %b", tt.name, got, tt.want)
		}
	}
}

func TestPodsOfANodeThatComesBackCountAgain(t *testing.T) {
	t.Parallel()
	c := snapshot.New(0)
	pod := snapshot.NewPod(policytest.Pod("p", "1", "1Gi", nil))
	c.Place(pod, "a")
	c.UpsertNode(policytest.Node("a", "4", "8Gi", 10, nil))
	c.RemoveNode("a")
	c.UpsertNode(policytest.Node("b", "4", "8Gi", 10, nil))
	c.UpsertNode(policytest.Node("a", "4", "8Gi", 10, nil))
	slot, _ := c.Slot("a")
	if row := c.Row(slot); len(row.Pods) != 1 || row.Requested.MilliCPU != 1000 {
		t.Errorf("row = %d pods, %+v, want the pod that was there", len(row.Pods), row.Requested)
	}
}

func TestASeenBindChangesNothing(t *testing.T) {
	t.Parallel()
	c := snapshot.New(0)
	c.UpsertNode(policytest.Node("a", "4", "8Gi", 10, nil))
	c.Place(snapshot.NewPod(policytest.Pod("p", "1", "1Gi", nil)), "a")
	before := c.Seq()
	c.Place(snapshot.NewPod(policytest.Pod("p", "1", "1Gi", func(p *v1.Pod) { p.Spec.NodeName = "a" })), "a")
	if c.Seq() != before {
		t.Error("a pod that was reserved and is now seen bound made deltas")
	}
	c.Place(snapshot.NewPod(policytest.Pod("p", "1", "1Gi", func(p *v1.Pod) { p.Spec.NodeName, p.Labels = "a", map[string]string{"x": "y"} })), "a")
	if c.Seq() == before {
		t.Error("a pod whose labels changed made no deltas")
	}
}
