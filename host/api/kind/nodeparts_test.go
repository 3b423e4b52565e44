package kind_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"
)

// machine is a node of many.
func machine(i int, cpu string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{v1.LabelHostname: fmt.Sprint("node-", i)}},
		Spec:       v1.NodeSpec{PodCIDR: fmt.Sprintf("10.0.%d.0/24", i)},
		Status: v1.NodeStatus{
			Capacity:    v1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")},
			Allocatable: v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("31Gi"), "pods": resource.MustParse("110")},
			Conditions:  []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

func encodedNode(t testing.TB, o store.Object) []byte {
	t.Helper()
	data, err := kind.Codec{}.Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestNodesOfOneSizeShareWhatTheyHold(t *testing.T) {
	t.Parallel()
	decode := func(n *v1.Node) *v1.Node {
		t.Helper()
		o, err := kind.Codec{}.Decode("nodes", encodedNode(t, n))
		if err != nil {
			t.Fatal(err)
		}
		return o.(*v1.Node)
	}
	one, two, less := decode(machine(1, "7")), decode(machine(2, "7")), decode(machine(3, "6"))
	if !sameMap(one.Status.Capacity, two.Status.Capacity) || !sameMap(one.Status.Allocatable, two.Status.Allocatable) {
		t.Error("two nodes of one size hold amounts of their own")
	}
	if !sameMap(one.Status.Capacity, less.Status.Capacity) || sameMap(one.Status.Allocatable, less.Status.Allocatable) {
		t.Error("a node with less to give shares not its capacity alone")
	}
	made := machine(4, "7")
	kind.Codec{}.Intern(made, encodedNode(t, made))
	if !sameMap(made.Status.Capacity, one.Status.Capacity) || !sameMap(made.Status.Allocatable, one.Status.Allocatable) {
		t.Error("a node that is written holds amounts of its own")
	}
	for i, got := range []*v1.Node{one, two, less, made} {
		want := machine(i+1, "7")
		if got == less {
			want = machine(3, "6")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("node %d (-want +got):\n%s", i+1, diff)
		}
	}
}
