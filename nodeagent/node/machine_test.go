package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHugepagesAreReadBySize(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for dir, text := range map[string]string{
		"hugepages-2048kB": "12\n", "hugepages-1048576kB": "0\n", "hugepages-xkB": "3\n", "hugepages-64kB": "",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, "nr_hugepages"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := map[int64]int64{2 << 20: 24 << 20, 1 << 30: 0, 64 << 10: 0}
	if diff := cmp.Diff(want, hugepages(root)); diff != "" {
		t.Error(diff)
	}
	if got := hugepages(filepath.Join(root, "absent")); len(got) != 0 {
		t.Errorf("without huge pages: %v", got)
	}
}

// texts shows a list as kubectl does.
func texts(list v1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}

func TestHugepagesAreNoMemoryForPods(t *testing.T) {
	t.Parallel()
	m := Machine{CPUs: 2, Memory: 1 << 30, Disk: 1 << 30, Hugepages: map[int64]int64{2 << 20: 24 << 20, 1 << 30: 0}}
	capacity := Capacity(m, 110)
	want := map[string]string{"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi", "pods": "110", "hugepages-2Mi": "24Mi", "hugepages-1Gi": "0"}
	if diff := cmp.Diff(want, texts(capacity)); diff != "" {
		t.Errorf("capacity: %s", diff)
	}
	got := Allocatable(capacity, v1.ResourceList{v1.ResourceMemory: resource.MustParse("100Mi"), "hugepages-2Mi": resource.MustParse("4Mi")})
	want["memory"], want["hugepages-2Mi"] = "900Mi", "20Mi"
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("allocatable: %s", diff)
	}
	m.Hugepages[1<<30] = 4 << 30
	if got := Allocatable(Capacity(m, 110), nil); got.Memory().Sign() != 0 {
		t.Errorf("more huge pages than memory leave %s", got.Memory())
	}
}
