package oracle

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

const benchNodes = 5000

func benchCluster() *snapshot.Cluster {
	cluster := snapshot.New(0)
	for i := range benchNodes {
		name := fmt.Sprintf("node-%d", i)
		cluster.UpsertNode(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%10),
			}},
			Status: v1.NodeStatus{Allocatable: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("64Gi"),
				v1.ResourcePods: resource.MustParse("110"),
			}},
		})
	}
	return cluster
}

func benchPod(i int) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Namespace: "ns", UID: "u", Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{
			NodeSelector: map[string]string{"topology.kubernetes.io/zone": "zone-3"},
			Tolerations:  []v1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}},
			Containers: []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("128Mi"),
			}}}},
		},
	}
}

// BenchmarkGuest measures what a guest costs a cycle: the delta of the pod
// bound before, the next pod, and its rows.
func BenchmarkGuest(b *testing.B) {
	built, err := preferred()
	if err != nil {
		b.Fatal(err)
	}
	for module, names := range map[*engine.Module][]string{
		built.predicates: {"PodFitsResources", "MatchNodeSelector", "PodToleratesNodeTaints", "MatchInterPodAffinity", "PodTopologySpread"},
		built.priorities: {"LeastRequestedPriority", "BalancedResourceAllocation", "InterPodAffinityPriority", "PodTopologySpreadPriority"},
	} {
		manifest, err := abi.ReadManifest(module.Manifest())
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range names {
			for _, rows := range []int{1, benchNodes} {
				b.Run(fmt.Sprintf("%s/%d", name, rows), func(b *testing.B) {
					benchGuest(b, module, manifest.Find(name), rows)
				})
			}
		}
	}
}

func benchGuest(b *testing.B, module *engine.Module, policy *abi.Policy, n int) {
	in, err := module.Open(b.Context(), engine.OpenConfig{})
	if err != nil {
		b.Fatal(err)
	}
	s := sandbox{in}
	defer s.close()
	if err := s.status(engine.FuncOpen, []byte(`{"policy":"`+policy.Name+`"}`)); err != nil {
		b.Fatal(err)
	}
	reads, encoder, cluster := policy.Groups(), wire.NewEncoder(), benchCluster()
	seq := cluster.Seq()
	var base []snapshot.Delta
	cluster.Base(func(d snapshot.Delta) bool { base = append(base, d); return true })
	var sent uint64
	for part := range slices.Chunk(base, wire.MaxBatch) {
		var batch []byte
		batch, sent = encoder.Deltas(part, reads)
		if err := s.apply(batch); err != nil {
			b.Fatal(err)
		}
	}
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	pod := snapshot.NewPod(benchPod(0))
	ask := s.filter
	if policy.Kind == abi.KindPriority {
		ask = s.score
	}
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		placed := *pod
		placed.Object = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "x"}, Spec: pod.Object.Spec}
		cluster.Place(&placed, fmt.Sprintf("node-%d", i%benchNodes))
		cluster.Remove("x")
		deltas, _ := cluster.Since(seq)
		seq = cluster.Seq()
		b.StartTimer()
		if batch, newer := encoder.Deltas(deltas.Whole(), reads); batch != nil {
			sent = newer
			if err := s.apply(batch); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := s.pod(encoder.Pod(sent, 0, pod, reads)); err != nil {
			b.Fatal(err)
		}
		if _, err := ask(encoder.Rows(rows)); err != nil {
			b.Fatal(err)
		}
	}
}
