package worker

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/nodeagent/pod"
)

func memory(limit string) v1.ResourceRequirements {
	list := v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
	return v1.ResourceRequirements{Limits: list, Requests: list}
}

// resized asks for other resources of a pod's one container.
func resized(p *v1.Pod, res v1.ResourceRequirements) *v1.Pod {
	p = p.DeepCopy()
	p.Generation++
	p.Spec.Containers[0].Resources = res
	return p
}

// TestALimitBelowWhatIsInUseWaits: the kernel would end the container for it. The fake's
// use 2 MiB.
func TestALimitBelowWhatIsInUseWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench) { b.pool.deps.Allocatable = memory("1Gi").Limits })
		defer b.end()
		has := func(limit, held string) {
			t.Helper()
			b.after(time.Second)
			b.pool.View("default", "web", func(r *pod.Record) {
				reason := ""
				if r.Held != nil {
					reason = r.Held.Reason
				}
				app := r.Containers["app"]
				cfg, _ := b.runtime.Config(app.ID)
				want, said := resource.MustParse(limit), app.Applied.Limits.Memory()
				if cfg.Resources.MemoryLimit != want.Value() || said.Cmp(want) != 0 || reason != held {
					t.Errorf("the limit is %d, said to be %s, held by %+v; want %s, %q", cfg.Resources.MemoryLimit, said, r.Held, limit, held)
				}
			})
		}
		p := newPod("web")
		p.Spec.Containers[0].Resources = memory("8Mi")
		b.pool.Set(p, nil)
		has("8Mi", "")
		p = resized(p, memory("2Mi"))
		b.pool.Set(p, nil)
		has("8Mi", v1.PodReasonError)
		p = resized(p, memory("3Mi"))
		b.pool.Set(p, nil)
		has("3Mi", "")
	})
}
