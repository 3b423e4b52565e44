package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
)

// TestAPodThatEndsIsFoundWithoutItsRecord, and ends in good order before the API forgets
// it.
func TestAPodThatEndsIsFoundWithoutItsRecord(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"it comes before the runtime is looked at": true, "it comes after that": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				defer b.end()
				p := newPod("web")
				p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
				b.pool.Set(p, nil)
				b.after(time.Second)
				b.pool.View("default", "web", func(r *pod.Record) {
					for _, ip := range r.Sandbox.IPs {
						p.Status.PodIPs = append(p.Status.PodIPs, v1.PodIP{IP: ip.String()})
					}
				})
				b.stop()
				calls := len(b.runtime.Calls())
				next := NewPool(b.pool.deps)
				if early {
					next.Set(deleted(p, 60), nil)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- next.Run(ctx) }()
				if !early {
					b.after(time.Second)
					next.Set(deleted(p, 60), nil)
				}
				b.after(time.Minute)
				var did []string
				for _, c := range b.runtime.Calls()[calls:] {
					did = append(did, strings.Fields(c)[0])
				}
				if len(did) < 2 || did[0] != "Exec" || did[1] != "StopContainer" {
					t.Errorf("it did %v, want it asked to end first, by its hook", did)
				}
				if all, err := b.runtime.List(t.Context()); err != nil || len(all.Sandboxes)+len(all.Containers) > 0 || b.network.Attached() > 0 {
					t.Errorf("left are %+v, %d networks, %v", all, b.network.Attached(), err)
				}
				if next.View("default", "web", func(*pod.Record) {}) {
					t.Error("the pod is still there")
				}
				cancel()
				<-done
			})
		})
	}
}
