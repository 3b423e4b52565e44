package worker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
)

// TestAPodThatEndsIsStillAskedWhetherItIsReady, by which it leaves its Services as it
// drains; that it lives is asked no more.
func TestAPodThatEndsIsStillAskedWhetherItIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var drains atomic.Bool
		b := newBench(t, func(b *bench) {
			b.runtime.Fail = func(method, _ string) error {
				if method == "Exec" && drains.Load() {
					return errors.New("I drain")
				}
				return nil
			}
		})
		defer b.end()
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan error, 1)
		go func() { asked <- b.pool.deps.Prober.Run(ctx) }()
		defer func() { cancel(); <-asked }()

		p := newPod("web")
		app := &p.Spec.Containers[0]
		app.Command[2] = "trap x; sleep 1000000"
		yes := v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}
		app.ReadinessProbe, app.LivenessProbe = &v1.Probe{ProbeHandler: yes, PeriodSeconds: 1, FailureThreshold: 1}, &v1.Probe{ProbeHandler: yes, PeriodSeconds: 1, FailureThreshold: 1}
		ready := func(want bool) {
			t.Helper()
			b.pool.View("default", "web", func(r *pod.Record) {
				if s := r.Containers["app"]; s.Phase != pod.Running || s.Ready != want {
					t.Errorf("the container is %s, ready %v; want it running, ready %v", s.Phase, s.Ready, want)
				}
			})
		}
		b.pool.Set(p, nil)
		b.after(5 * time.Second)
		ready(true)
		b.pool.Set(deleted(p, 60), nil)
		b.after(5 * time.Second)
		ready(true)
		drains.Store(true)
		b.after(5 * time.Second)
		ready(false)
		for len(b.events.Events) > 0 {
			if e := <-b.events.Events; strings.Contains(e, "Liveness probe failed") {
				t.Errorf("told %q of a pod that ends", e)
			}
		}
		b.after(time.Minute)
	})
}
