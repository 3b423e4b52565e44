package pod

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRestartsWaitLongerAndLonger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.settle()
	w.log = nil
	for i, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second} {
		w.pass(time.Second)
		w.exit("app", 1)
		a := w.settle()
		if want > 0 {
			if got := a.Wake.Sub(w.now); got != want {
				t.Fatalf("restart %d waits %v, want %v", i+1, got, want)
			}
			if s := w.status().ContainerStatuses[0]; s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || s.LastTerminationState.Terminated == nil {
				t.Errorf("waiting container is shown as %+v", s)
			}
			w.phase(v1.PodRunning)
			w.pass(want)
			w.settle()
		}
		w.expect("start container app")
		if got := w.status().ContainerStatuses[0].RestartCount; got != int32(i+1) {
			t.Errorf("restart count %d, want %d", got, i+1)
		}
	}
	w.pass(11 * time.Minute)
	w.exit("app", 1)
	w.settle()
	w.expect("start container app")
}

func TestRestartPolicies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy v1.RestartPolicy
		code   int32
		again  bool
		phase  v1.PodPhase
	}{
		{v1.RestartPolicyAlways, 0, true, v1.PodRunning},
		{v1.RestartPolicyAlways, 1, true, v1.PodRunning},
		{v1.RestartPolicyOnFailure, 0, false, v1.PodSucceeded},
		{v1.RestartPolicyOnFailure, 1, true, v1.PodRunning},
		{v1.RestartPolicyNever, 0, false, v1.PodSucceeded},
		{v1.RestartPolicyNever, 1, false, v1.PodFailed},
	} {
		t.Run(fmt.Sprintf("%s after exit %d", test.policy, test.code), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, podOf(test.policy, "app"))
			w.settle()
			w.log = nil
			w.exit("app", test.code)
			w.settle()
			if test.again {
				w.expect("start container app")
			} else {
				w.expect("tear down")
			}
			w.phase(test.phase)
		})
	}
}

// A pod that has run stays Running while its container can not be started again.
func TestAPodThatRanIsNotPendingAgain(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]func(w *world){
		"its image is gone": func(w *world) { w.rec.DidNotPull("app", "img", "ErrImagePull", "no", w.now) },
		"its image is still gone": func(w *world) {
			w.rec.DidNotPull("app", "img", "ErrImagePull", "no", w.now)
			w.pass(2 * time.Second)
			w.rec.Next(w.now)
		},
		"its ConfigMap is gone": func(w *world) { w.rec.DidNotStart("app", "CreateContainerConfigError", "no", w.now) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
			w.settle()
			w.exit("app", 1)
			stays(w)
			w.phase(v1.PodRunning)
			if s := w.status().ContainerStatuses[0]; s.State.Waiting == nil || s.LastTerminationState.Terminated == nil {
				t.Errorf("the container is shown as %+v", s)
			}
		})
	}
}

func TestFailedInitContainerFailsAPodThatNeverRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyNever, "init1", "app"))
	w.settle()
	w.log = nil
	w.exit("init1", 2)
	w.settle()
	w.expect("tear down")
	w.phase(v1.PodFailed)
	if c := condition(w.status(), v1.PodInitialized); c.Status != v1.ConditionFalse {
		t.Errorf("Initialized is %s", c.Status)
	}
}

func TestSidecarsEndWithTheirPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyNever, "side", "app"))
	w.settle()
	w.log = nil
	w.exit("app", 0)
	w.phase(v1.PodRunning) // the sidecar still runs
	w.settle()
	w.expect("stop all", "tear down")
	w.phase(v1.PodSucceeded)
}

func TestSandboxThatEndsIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "init1", "app"))
	w.settle()
	w.exit("init1", 0)
	w.settle()
	w.log = nil
	w.rec.Sandbox.Ready = false
	w.settle()
	w.expect("reset sandbox", "set up", "start sandbox", "start container init1")
	w.phase(v1.PodRunning)
	w.exit("init1", 0)
	w.settle()
	w.expect("start container app")
	if w.rec.Sandbox.Attempt != 1 || w.rec.Containers["app"].Restarts != 1 {
		t.Errorf("attempt %d, restarts %d; want 1, 1", w.rec.Sandbox.Attempt, w.rec.Containers["app"].Restarts)
	}
}

func TestDeadlineFailsAPod(t *testing.T) {
	t.Parallel()
	p := podOf(v1.RestartPolicyAlways, "app")
	seconds := int64(60)
	p.Spec.ActiveDeadlineSeconds = &seconds
	w := newWorld(t, p)
	a := w.settle()
	if got := a.Wake.Sub(start); got != time.Minute {
		t.Errorf("wakes after %v, want 1m", got)
	}
	w.log = nil
	w.pass(time.Minute)
	w.settle()
	w.expect("stop all", "tear down")
	if st := w.status(); st.Phase != v1.PodFailed || st.Reason != "DeadlineExceeded" {
		t.Errorf("phase %s, reason %s", st.Phase, st.Reason)
	}
}

func TestShorterGraceCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.settle()
	w.rec.Update(deleted(w.rec.Pod, 30), w.now)
	w.pass(5 * time.Second)
	w.rec.Update(deleted(w.rec.Pod, 60), w.now)
	if got := w.rec.Deadline().Sub(start); got != 30*time.Second {
		t.Errorf("a longer grace moved the deadline to %v", got)
	}
	w.rec.Update(deleted(w.rec.Pod, 2), w.now)
	if got := w.rec.Deadline().Sub(start); got != 7*time.Second {
		t.Errorf("deadline after %v, want 7s", got)
	}
}

func TestUnhealthyContainerIsKilledAndRestarted(t *testing.T) {
	t.Parallel()
	p := podOf(v1.RestartPolicyAlways, "app")
	short := int64(3)
	p.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &short}
	w := newWorld(t, p)
	w.settle()
	w.log = nil
	w.rec.Probed("app", "c2", true, true, "failed liveness probe")
	if a := w.rec.Next(w.now); a.Grace != 3*time.Second || a.Reason != "failed liveness probe" {
		t.Errorf("action %+v", a)
	}
	w.settle()
	w.expect("stop container app", "start container app")
}

// Of two probes that fail at once the one may tell last how things stood before the
// other.
func TestWhatAProbeDecidedForARunStands(t *testing.T) {
	t.Parallel()
	p := podOf(v1.RestartPolicyAlways, "app")
	p.Spec.Containers[0].StartupProbe = &v1.Probe{}
	w := newWorld(t, p)
	w.settle()
	w.log = nil
	w.rec.Probed("app", "c2", true, true, "failed liveness probe")
	w.rec.Probed("app", "c2", false, false, "")
	if s := w.rec.Containers["app"]; !s.Started || s.Ready {
		t.Errorf("started %v, ready %v", s.Started, s.Ready)
	}
	w.settle()
	w.expect("stop container app", "start container app")
	if s := w.rec.Containers["app"]; s.Started || s.Unhealthy != "" {
		t.Errorf("the next run is started %v, and unhealthy since %q", s.Started, s.Unhealthy)
	}
}

func TestEachProbeHasItsOwnGrace(t *testing.T) {
	t.Parallel()
	seconds := func(n int64) *v1.Probe { return &v1.Probe{TerminationGracePeriodSeconds: &n} }
	for name, test := range map[string]struct {
		liveness, startup *v1.Probe
		started           bool
		want              time.Duration
	}{
		"the startup probe's, before the start":     {seconds(60), seconds(5), false, 5 * time.Second},
		"the liveness probe's, after it":            {seconds(60), seconds(5), true, 60 * time.Second},
		"the pod's, where the startup says nothing": {seconds(60), &v1.Probe{}, false, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", LivenessProbe: test.liveness, StartupProbe: test.startup}}}}
			w := newWorld(t, p)
			w.settle()
			w.rec.Probed("c", w.rec.Containers["c"].ID, test.started, false, "failed its probe")
			if a := w.rec.Next(w.now); a.Kind != StopContainer || a.Grace != test.want {
				t.Errorf("%s with grace %v, want %v", a.Kind, a.Grace, test.want)
			}
		})
	}
}

// What the agent stops so that it starts anew does so, with whatever code it ends.
func TestWhatIsStoppedToStartAnewDoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		policy v1.RestartPolicy
		change func(w *world)
		want   []string
	}{
		{"unhealthy, OnFailure", v1.RestartPolicyOnFailure, func(w *world) { w.rec.Probed("app", "c2", true, true, "failed liveness probe") }, []string{"start container app"}},
		{"unhealthy, Never", v1.RestartPolicyNever, func(w *world) { w.rec.Probed("app", "c2", true, true, "failed liveness probe") }, []string{"tear down"}},
		{"another image, Never", v1.RestartPolicyNever, func(w *world) { w.rec.Containers["app"].Image = "was:1" }, []string{"start container app"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, podOf(tt.policy, "app"))
			w.settle()
			w.log = nil
			tt.change(w)
			if a := w.rec.Next(w.now); a.Kind != StopContainer {
				t.Fatalf("next is %+v, want it stopped", a)
			}
			w.exit("app", 0)
			w.settle()
			w.expect(tt.want...)
		})
	}
}

// However long the API was away, the end of a pod is told within moments of its return.
func TestTheEndIsToldSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	p := podOf(v1.RestartPolicyNever, "app")
	w := newWorld(t, p)
	w.settle()
	w.exit("app", 0)
	gone := metav1.NewTime(w.now)
	p.DeletionTimestamp = &gone
	for range 12 {
		a := w.settle()
		for ; a.Kind != Finish; a = w.settle() {
			if wait := a.Wake.Sub(w.now); wait > 10*time.Second {
				t.Fatalf("the end is told again after %s", wait)
			}
			w.now = a.Wake
		}
		w.rec.Failed(errors.New("the API is away"), w.now)
	}
}
