package wire_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Rows with equal hashes are told in equal words: a fact that guests are sent and
// that the hash leaves out would make one node answer for another.
func TestRowsOfEqualHashesAreToldAlike(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(11, 12))
	for _, group := range []abi.Groups{
		abi.NodeLabels, abi.NodeTaints, abi.NodeConditions, abi.NodeAnnotations, abi.NodeCapacity,
		abi.NodeUsage, abi.NodePorts, abi.NodeVolumes, abi.NodeImages, abi.NodeName,
	} {
		told, equal := map[uint64][]byte{}, 0
		for range 600 {
			row := randomRow(random)
			var hashes snapshot.RowHashes
			row.Hash(&hashes, group)
			name := row.Node.Name
			if group != abi.NodeName {
				name = "n" // comes whatever is read, and is left out of the comparison
			}
			same := *row
			same.Node = row.Node.DeepCopy()
			same.Node.Name = name
			words, _ := wire.NewEncoder().Deltas([]snapshot.Delta{{Seq: 1, Kind: snapshot.RowUpsert, Groups: abi.NodeGroups, Row: &same}}, group)
			before, known := told[hashes.Of(group)]
			if known && !bytes.Equal(before, words) {
				t.Fatalf("%v: two rows of one hash are told otherwise: %+v", group, row)
			}
			if known {
				equal++
			}
			told[hashes.Of(group)] = bytes.Clone(words)
		}
		if equal == 0 || len(told) < 2 {
			t.Errorf("group %d: %d rows were equal, %d differed", group, equal, len(told))
		}
	}
}

// randomRow is a row of little variety, so that some are equal.
func randomRow(r *rand.Rand) *snapshot.Row {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	c := snapshot.New(0)
	some := func(n int64) resource.Quantity { return *resource.NewQuantity(r.Int64N(n)+1, resource.DecimalSI) }
	list := corev1.ResourceList{corev1.ResourceCPU: some(2), corev1.ResourceMemory: some(2), corev1.ResourcePods: some(2)}
	if r.IntN(2) == 0 {
		list[corev1.ResourceName(pick("a.test/x", "a.test/y"))] = some(2)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: pick("a", "b", "c"), Labels: map[string]string{pick("k", "l"): pick("v", "w")}, Annotations: map[string]string{pick("k", "l"): pick("v", "w")},
		},
		Spec: corev1.NodeSpec{Unschedulable: r.IntN(2) == 0},
		Status: corev1.NodeStatus{Allocatable: list, Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeConditionType(pick("Ready", "Odd")), Status: corev1.ConditionStatus(pick("True", "False")),
			LastTransitionTime: metav1.NewTime(time.Unix(r.Int64N(2), 0)),
		}}},
	}
	for range r.IntN(3) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: pick("k", "l"), Value: pick("", "v"), Effect: corev1.TaintEffect(pick("NoSchedule", "NoExecute"))})
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{pick("i", "j")}, SizeBytes: r.Int64N(2)})
	}
	c.UpsertNode(node)
	for i := range r.IntN(3) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: pick("x", "y"), UID: types.UID(fmt.Sprint("u", i))},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: some(2)}},
				Ports:     []corev1.ContainerPort{{HostPort: r.Int32N(2) + 1, Protocol: corev1.Protocol(pick("TCP", "UDP"))}},
			}}},
		}
		if r.IntN(2) == 0 {
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pick("a", "b"), ReadOnly: r.IntN(2) == 0},
			}}}
		}
		c.Place(snapshot.NewPod(pod), node.Name)
	}
	return c.Row(0)
}
