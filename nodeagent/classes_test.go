package nodeagent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// weights are the shares that cgroups were given.
type weights map[string]int64

func (w weights) Ensure(path string, res runtime.Resources) error {
	w[path] = res.CPUShares
	return nil
}

func (weights) Remove(string) error { return nil }

func TestClassesOfPodsWeighWhatTheyRequest(t *testing.T) {
	t.Parallel()
	s, got := newStrained(t, Pressure{}), weights{}
	s.cfg.Cgroups, s.cfg.CgroupRoot = got, "/root"
	check := func(when string, burstable int64) {
		t.Helper()
		s.weighClasses()
		if diff := cmp.Diff(weights{"/root/kubepods/burstable": burstable, "/root/kubepods/besteffort": 2}, got); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	check("without pods", 2)
	for name, res := range map[string]v1.ResourceRequirements{
		"half":  {Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}},
		"three": {Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}},
		"least": {},
		"guaranteed": {Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("1Gi")},
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("1Gi")}},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		p.Spec.Containers = []v1.Container{{Name: "app", Resources: res}}
		s.pool.Set(p, nil)
	}
	check("with two burstable pods", 3584)
	s.pool.Each(func(r *pod.Record) {
		if r.Pod.Name == "three" {
			r.Rejected = &pod.Verdict{}
		}
	})
	check("when one of them is over", 512)
	s.record("half", func(r *pod.Record) { r.End(pod.Verdict{Reason: "Evicted"}, 0, time.Now()) })
	check("when the other is evicted, and its object stays", 2)
}
