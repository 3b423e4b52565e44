package nodeagent_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent"
)

// TestPodsMayNotHaveWhatIsReserved, nor what must be left before they are
// evicted.
func TestPodsMayNotHaveWhatIsReserved(t *testing.T) {
	t.Parallel()
	f := newFakes(t.TempDir(), nil)
	cfg := f.config()
	cfg.MaxPods = 7
	cfg.Reserved = v1.ResourceList{v1.ResourceCPU: resource.MustParse("300m"), v1.ResourceMemory: resource.MustParse("10Mi")}
	cfg.Pressure = nodeagent.Pressure{Hard: nodeagent.NoThresholds(), ImagesHigh: 100}
	cfg.Pressure.Hard[nodeagent.MemoryAvailable] = nodeagent.Threshold{Quantity: 20 << 20}
	a, err := nodeagent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	watched := f.api.Watched("pods")
	go func() { done <- a.Run(ctx) }()
	<-watched // pods are followed when the Node is there
	got, err := f.api.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[v1.ResourceName]int64{v1.ResourceCPU: 300, v1.ResourceMemory: 30 << 20 * 1000, v1.ResourceEphemeralStorage: 0} {
		all, free := got.Status.Capacity[name], got.Status.Allocatable[name]
		for page, q := range got.Status.Capacity {
			if name == v1.ResourceMemory && len(page) > 9 && page[:9] == "hugepages" {
				all.Sub(q)
			}
		}
		if all.Sub(free); all.MilliValue() != want {
			t.Errorf("%s: %s is kept from pods, want %dm", name, all.String(), want)
		}
	}
	if n := got.Status.Allocatable.Pods().Value(); n != 7 {
		t.Errorf("%d pods", n)
	}
}
