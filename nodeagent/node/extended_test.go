package node

import (
	"log/slog"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"context"
)

// TestOthersResourcesStay: extended resources that somebody wrote into the status
// are there after the machine told its own, what it told itself before is not.
func TestOthersResourcesStay(t *testing.T) {
	t.Parallel()
	given := v1.ResourceList{"example.com/fpga": resource.MustParse("4"), v1.ResourceCPU: resource.MustParse("64"), "hugepages-1Gi": resource.MustParse("9Gi")}
	client := fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1.NodeStatus{Capacity: given, Allocatable: given}})
	k := &Keeper{Client: client, Name: "n1", Log: slog.New(slog.DiscardHandler), Describe: func(context.Context) *v1.Node {
		own := func() v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")} }
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1.NodeStatus{Capacity: own(), Allocatable: own()}}
	}}
	if err := k.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []v1.ResourceList{got.Status.Capacity, got.Status.Allocatable} {
		if fpga, cpu := list["example.com/fpga"], list[v1.ResourceCPU]; fpga.Value() != 4 || cpu.Value() != 2 || len(list) != 2 {
			t.Errorf("resources = %v, want 4 of example.com/fpga and 2 CPUs", list)
		}
	}
}

func TestIsExtended(t *testing.T) {
	t.Parallel()
	for name, want := range map[v1.ResourceName]bool{
		"cpu": false, "hugepages-2Mi": false, "attachable-volumes-x": false, "example.com/gpu": true, "kubernetes.io/batch-cpu": false,
		"scheduling.k8s.io/foo": true, "requests.example.com/gpu": false,
	} {
		if got := IsExtended(name); got != want {
			t.Errorf("IsExtended(%s) = %v, want %v", name, got, want)
		}
	}
}
