package worker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/cgroup"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// groups tells of each cgroup that is made.
type groups struct {
	cgroup.None
	made func(runtime.Resources)
}

func (g groups) Ensure(_ string, res runtime.Resources) error {
	g.made(res)
	return nil
}

// TestEachSandboxFindsThePodsCgroup: the runtime takes it away with a sandbox that
// did not start.
func TestEachSandboxFindsThePodsCgroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		made, tries := false, 0
		b := newBench(t, func(b *bench) {
			b.pool.deps.Cgroups = groups{made: func(runtime.Resources) { made = true }}
			b.runtime.Fail = func(method, _ string) error {
				if method != "RunSandbox" {
					return nil
				}
				if tries++; !made {
					t.Errorf("try %d has no cgroup", tries)
				}
				if made = false; tries < 3 {
					return errors.New("no room")
				}
				return nil
			}
		})
		defer b.end()
		b.pool.Set(newPod("web"), nil)
		b.after(time.Minute)
		if tries != 3 || b.phase("web") != v1.PodRunning {
			t.Errorf("%d tries, phase %s", tries, b.phase("web"))
		}
	})
}

// TestWhatAPodsResolverLacksIsTold: a name that is not found for it is looked for long.
func TestWhatAPodsResolverLacksIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.end()
		p := newPod("web")
		p.Spec.DNSPolicy = v1.DNSClusterFirst
		b.pool.Set(p, nil)
		b.after(time.Second)
		if n := b.told("MissingClusterDNS"); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}
