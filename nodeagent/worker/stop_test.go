package worker

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/probe"
	"github.com/berth-dev/berth/nodeagent/runtime"
	runtimefake "github.com/berth-dev/berth/nodeagent/runtime/fake"
)

// draining is a runtime whose commands fail once it drains.
type draining struct {
	*runtimefake.Runtime
	drains atomic.Bool
}

func (d *draining) Exec(ctx context.Context, id string, cfg runtime.ExecConfig) (int32, error) {
	if d.drains.Load() {
		return 1, nil
	}
	return d.Runtime.Exec(ctx, id, cfg)
}

// TestAPodThatEndsIsStillAskedWhetherItIsReady, by which it leaves its Services as it
// drains; that it lives is asked no more.
func TestAPodThatEndsIsStillAskedWhetherItIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		commands := &draining{}
		b := newBench(t, func(b *bench) {
			commands.Runtime = b.runtime
			b.pool.deps.Prober = probe.New(commands, b.events)
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
		commands.drains.Store(true)
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

// TestSidecarsGetNoSignalBeforeTheirTurn: all are told that the pod ends at once, by their
// preStop hooks, also where the others use up the grace.
func TestSidecarsGetNoSignalBeforeTheirTurn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		app           string
		hook          int64 // of the app, in seconds
		ends          time.Duration
		before, after []string // who got a signal when it ends
	}{
		"the app's hook takes a while": {"sleep 1000000", 10, 10 * time.Second, nil, []string{"app", "second", "first"}},
		"the app ends by its kill":     {"trap x; sleep 1000000", 0, 30 * time.Second, []string{"app"}, []string{"app", "first", "second"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				defer b.end()
				p, always := newPod("web"), v1.ContainerRestartPolicyAlways
				p.Spec.RestartPolicy = v1.RestartPolicyNever
				p.Spec.Containers[0].Command[2] = test.app
				p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: test.hook}}}
				for _, name := range []string{"first", "second"} {
					p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{
						Name: name, Image: "busybox:1", Command: []string{"sh", "-c", "sleep 1000000"}, RestartPolicy: &always,
						Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}},
					})
				}
				b.pool.Set(p, nil)
				b.after(10 * time.Second)
				names := map[string]string{}
				b.pool.View("default", "web", func(r *pod.Record) {
					for name, s := range r.Containers {
						names[s.ID] = name
					}
				})
				b.pool.Set(deleted(p, 30), nil)
				b.after(test.ends - time.Second)
				done := func() (hooks int, stopped []string) {
					for _, call := range b.runtime.Calls() {
						switch method, subject, _ := strings.Cut(call, " "); method {
						case "Exec":
							hooks++
						case "StopContainer":
							stopped = append(stopped, names[subject])
						}
					}
					return hooks, stopped
				}
				if hooks, stopped := done(); hooks != 2 || !slices.Equal(stopped, test.before) {
					t.Errorf("before the app ends, %d hooks have run, and %q got their signals", hooks, stopped)
				}
				b.after(10 * time.Second)
				hooks, stopped := done()
				if test.before != nil { // at the deadline nobody waits for anybody
					slices.Sort(stopped)
				}
				if hooks != 2 || !slices.Equal(stopped, test.after) {
					t.Errorf("%d hooks have run, and %q got their signals in turn, want %q", hooks, stopped, test.after)
				}
			})
		})
	}
}

// TestAContainerWhosePostStartFailedEndsByItsPreStop, as any other that is stopped.
func TestAContainerWhosePostStartFailedEndsByItsPreStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.end()
		p := newPod("web")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		command := func(name string) *v1.LifecycleHandler {
			return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{name}}}
		}
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: command("false"), PreStop: command("true")}
		b.pool.Set(p, nil)
		b.after(time.Minute)
		var did []string
		for _, call := range b.runtime.Calls() {
			if method, _, _ := strings.Cut(call, " "); method == "Exec" || method == "StopContainer" {
				did = append(did, method)
			}
		}
		if want := []string{"Exec", "Exec", "StopContainer"}; !slices.Equal(did, want) {
			t.Errorf("it did %v, want %v", did, want)
		}
		if n := b.told("Killing"); n != 1 || b.phase("web") != v1.PodFailed {
			t.Errorf("told %d times, phase %s", n, b.phase("web"))
		}
	})
}
