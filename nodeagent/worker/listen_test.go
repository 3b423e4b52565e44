package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
)

// services send to port 80 of all pods, until withdrawn is closed.
type services struct{ withdrawn chan struct{} }

func (services) Ports(*v1.Pod) []uint16 { return []uint16{80} }

func (s services) Withdrawn(ctx context.Context, _ *v1.Pod) bool {
	if s.withdrawn == nil {
		return false
	}
	select {
	case <-ctx.Done():
	case <-s.withdrawn:
	}
	return true
}

// turns waits for what is to become true at a time from now, or within late of it.
func (b *bench) turns(at, late time.Duration, what string, is func() bool) {
	b.t.Helper()
	const early = 10 * time.Millisecond
	if at > 0 {
		b.after(at - early)
		if is() {
			b.t.Errorf("%s before %v", what, at)
		}
		late += early
	}
	b.after(late)
	if !is() {
		b.t.Errorf("not after %v: %s", at, what)
	}
}

func TestAPodThatNobodyAsksIsReadyWhenItListens(t *testing.T) {
	t.Parallel()
	passes := &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 10}
	for name, test := range map[string]struct {
		change  func(*v1.Pod)
		listens time.Duration // after the start; 0 is never
		broken  bool
		ready   time.Duration
	}{
		"it listens after a while":                {nil, time.Second, false, time.Second},
		"it never listens":                        {nil, 0, false, 2 * time.Second},
		"another port is listened on":             {func(p *v1.Pod) { p.Labels = map[string]string{"port": "81"} }, time.Millisecond, false, 2 * time.Second},
		"nobody can tell":                         {nil, 0, true, 0},
		"it shares the machine's network":         {func(p *v1.Pod) { p.Spec.HostNetwork = true }, 0, false, 0},
		"it is asked, and says that it is ready":  {func(p *v1.Pod) { p.Spec.Containers[0].ReadinessProbe = passes }, 0, false, 0},
		"it is asked whether it has started":      {func(p *v1.Pod) { p.Spec.Containers[0].StartupProbe = passes }, 0, false, 0},
		"it is asked whether it lives, no more":   {func(p *v1.Pod) { p.Spec.Containers[0].LivenessProbe = passes }, time.Second, false, time.Second},
		"a second container is not asked, either": {func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, *another(p)) }, time.Second, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPod("web")
				if test.change != nil {
					test.change(p)
				}
				begun := time.Now()
				b := newBench(t, func(b *bench) {
					b.pool.deps.Services = services{}
					b.network.Listening = func(string) []uint16 {
						switch {
						case test.listens == 0 || time.Since(begun) < test.listens:
							return nil
						case p.Labels["port"] != "":
							return []uint16{81}
						}
						return []uint16{79, 80}
					}
					b.network.Fail = func(method, _ string) error {
						if test.broken && method == "Listeners" {
							return errors.New("the kernel does not tell")
						}
						return nil
					}
				})
				defer b.end()
				ctx, cancel := context.WithCancel(t.Context())
				asked := make(chan error, 1)
				go func() { asked <- b.pool.deps.Prober.Run(ctx) }()
				defer func() { cancel(); <-asked }()
				ready := func() (all bool) {
					b.pool.View("default", "web", func(r *pod.Record) {
						all = true
						for _, c := range r.Containers {
							all = all && c.Phase == pod.Running && c.Ready
						}
					})
					return all
				}
				b.pool.Set(p, nil)
				b.turns(test.ready, 150*time.Millisecond, "it is ready", ready)
			})
		})
	}
}

func another(p *v1.Pod) *v1.Container {
	c := p.Spec.Containers[0].DeepCopy()
	c.Name = "another"
	return c
}

// The next agent waits for what this one waited for.
func TestAPodThatDoesNotListenYetIsReadyAfterARestartOfTheAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		serves := func(b *bench) { b.pool.deps.Services = services{} }
		first := newBench(t, serves)
		first.pool.Set(newPod("web"), nil)
		first.after(time.Second)
		first.stop()
		record := first.keep.record(t, "uid-web")
		if record.Containers["app"].Ready {
			t.Error("it was ready at once")
		}
		second := newBench(t, func(b *bench) {
			serves(b)
			b.runtime, b.pool.deps.Runtime = first.runtime, first.runtime
			b.pool.Adopt([]*pod.Record{record})
		})
		defer second.end()
		second.after(2 * time.Second)
		if !second.keep.record(t, "uid-web").Containers["app"].Ready {
			t.Error("nobody waited on")
		}
	})
}

// A pod that was deleted serves on until nobody sends to it any more.
func TestADeletedPodGetsItsSignalWhenNobodySendsToIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		withdrawn time.Duration // 0 is never; less is that it was no endpoint
		grace     int64
		hook      int64
		gone      bool // the API has the pod no more, or never deleted it
		signal    time.Duration
	}{
		"the cluster knows soon":             {withdrawn: time.Second, grace: 30, signal: 1500 * time.Millisecond},
		"the cluster never knows":            {grace: 30, signal: 2500 * time.Millisecond},
		"it was no endpoint":                 {withdrawn: -1, grace: 30},
		"the grace is less":                  {grace: 1, signal: time.Second},
		"there is no grace":                  {grace: 0},
		"its hook takes longer":              {withdrawn: time.Second, grace: 30, hook: 3, signal: 3 * time.Second},
		"its hook takes less":                {withdrawn: time.Second, grace: 30, hook: 1, signal: 1500 * time.Millisecond},
		"it is ended by a shutdown and such": {grace: 30, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var known atomic.Bool
				s := services{withdrawn: make(chan struct{})}
				if test.withdrawn < 0 {
					s.withdrawn = nil
				}
				b := newBench(t, func(b *bench) { b.pool.deps.Services = s })
				defer b.end()
				p := newPod("web")
				if test.hook > 0 {
					p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: test.hook}}}
				}
				b.pool.Set(p, nil)
				b.after(5 * time.Second)
				if test.withdrawn > 0 {
					time.AfterFunc(test.withdrawn, func() { known.Store(true); close(s.withdrawn) })
				}
				if test.gone {
					b.pool.End("uid-web", pod.Verdict{Reason: "Evicted"}, 30*time.Second)
				} else {
					b.pool.Set(deleted(p, test.grace), nil)
				}
				signalled := func() bool {
					return slices.ContainsFunc(b.runtime.Calls(), func(call string) bool { return strings.HasPrefix(call, "StopContainer ") })
				}
				b.turns(test.signal, 10*time.Millisecond, "it has its signal", signalled)
				b.after(time.Minute)
			})
		})
	}
}
