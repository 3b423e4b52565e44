package worker

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
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

// TestALimitMayFallWithARestart below what is in use: it starts anew. What runs on
// beside it is still looked at.
func TestALimitMayFallWithARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench) { b.pool.deps.Allocatable = memory("1Gi").Limits })
		defer b.end()
		p := newPod("web")
		p.Spec.Containers[0].Resources = memory("8Mi")
		p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
		p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		p.Spec.Containers[1].Name = "other"
		for _, step := range []struct{ app, other, appHas, otherHas string }{
			{"8Mi", "8Mi", "8Mi", "8Mi"}, {"1Mi", "1Mi", "8Mi", "8Mi"}, {"1Mi", "3Mi", "1Mi", "3Mi"},
		} {
			p = resized(p, memory(step.app))
			p.Spec.Containers[1].Resources = memory(step.other)
			b.pool.Set(p, nil)
			b.after(time.Second)
			b.pool.View("default", "web", func(r *pod.Record) {
				has := func(name string) string { return r.Containers[name].Applied.Limits.Memory().String() }
				if has("app") != step.appHas || has("other") != step.otherHas {
					t.Errorf("asked for %s and %s, they have %s and %s", step.app, step.other, has("app"), has("other"))
				}
			})
		}
	})
}

// TestAPodIsResizedAsAWhole, where it has what its new limit is below.
func TestAPodIsResizedAsAWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var limit int64
		b := newBench(t, func(b *bench) {
			b.pool.deps.Allocatable = memory("1Gi").Limits
			b.pool.deps.Cgroups = groups{made: func(res runtime.Resources) { limit = res.MemoryLimit }}
		})
		defer b.end()
		p := newPod("web")
		ask := func(whole string, want int64, held string) {
			t.Helper()
			p = p.DeepCopy()
			p.Generation++
			res := memory(whole)
			p.Spec.Resources = &res
			b.pool.Set(p, nil)
			b.after(time.Second)
			b.pool.View("default", "web", func(r *pod.Record) {
				reason := ""
				if r.Held != nil {
					reason = r.Held.Reason
				}
				if cfg, _ := b.runtime.Config(r.Containers["app"].ID); cfg.Resources.MemoryLimit != want {
					t.Errorf("asked for %s, the container without a limit has %d, want %d", whole, cfg.Resources.MemoryLimit, want)
				}
				st := r.Status(pod.Host{}, time.Now())
				if limit != want || st.Resources.Limits.Memory().Value() != want || reason != held {
					t.Errorf("asked for %s, the limit is %d, told as %v, held by %+v; want %d, %q", whole, limit, st.Resources.Limits, r.Held, want, held)
				}
			})
		}
		ask("8Mi", 8<<20, "")
		ask("16Mi", 16<<20, "")
		ask("2Mi", 16<<20, v1.PodReasonError)
		ask("2Gi", 16<<20, v1.PodReasonInfeasible)
		ask("3Mi", 3<<20, "")
	})
}

// TestAContainerStartsWithWhatItWasGranted, whatever its spec asks for meanwhile.
func TestAContainerStartsWithWhatItWasGranted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		asked, want string
		held        string
	}{
		"what the machine has":             {"256Mi", "256Mi", ""},
		"more than it has":                 {"2Gi", "128Mi", v1.PodReasonInfeasible},
		"more than it has beside the next": {"1Gi", "128Mi", v1.PodReasonDeferred},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var group int64
				b := newBench(t, func(b *bench) {
					b.pool.deps.Allocatable = memory("1Gi").Limits
					b.pool.deps.Cgroups = groups{made: func(res runtime.Resources) { group = res.MemoryLimit }}
				})
				defer b.end()
				other := newPod("other")
				other.Spec.Containers[0].Resources = memory("128Mi")
				b.pool.Set(other, nil)
				b.after(time.Second)
				p := newPod("web")
				p.Spec.Containers[0].Resources, p.Spec.Containers[0].Command[2] = memory("128Mi"), "sleep 10; exit 1"
				b.pool.Set(p, nil)
				b.after(time.Second)
				p = resized(p, memory(test.asked))
				if test.held == "" { // in back-off, which ends
					b.after(25 * time.Second)
				}
				b.pool.Set(p, nil)
				b.after(11 * time.Second)
				want := resource.MustParse(test.want)
				b.pool.View("default", "web", func(r *pod.Record) {
					app, reason := r.Containers["app"], ""
					if r.Held != nil {
						reason = r.Held.Reason
					}
					cfg, _ := b.runtime.Config(app.ID)
					if app.Restarts == 0 || cfg.Resources.MemoryLimit != want.Value() || reason != test.held {
						t.Errorf("run %d has a limit of %d, held by %+v; want %s of a further run, %q", app.Restarts, cfg.Resources.MemoryLimit, r.Held, test.want, test.held)
					}
				})
				if group != want.Value() {
					t.Errorf("the pod's limit is %d, want %s", group, test.want)
				}
				for _, p := range b.pool.others("uid-other") {
					if got := p.Spec.Containers[0].Resources.Limits.Memory(); got.Cmp(want) != 0 {
						t.Errorf("it counts as %s against the machine, want %s", got, test.want)
					}
				}
			})
		})
	}
}
