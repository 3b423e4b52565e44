package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// An API takes no status by which a container of OnFailure leaves the end of a run that
// succeeded, nor one of Never any end: one that starts anew all the same does not end
// before.
func TestAContainerThatIsAboutToStartAnewWaits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy v1.RestartPolicy
		change func(w *world)
	}{
		"unhealthy, OnFailure":     {v1.RestartPolicyOnFailure, func(w *world) { w.rec.Probed("app", "c2", true, true, "failed liveness probe") }},
		"another image, Never":     {v1.RestartPolicyNever, func(w *world) { w.rec.Containers["app"].Image = "was:1" }},
		"another image, OnFailure": {v1.RestartPolicyOnFailure, func(w *world) { w.rec.Containers["app"].Image = "was:1" }},
		"resized, Never": {v1.RestartPolicyNever, func(w *world) {
			applied := v1.ResourceRequirements{}
			w.rec.Containers["app"].Applied = &applied
			w.rec.ask("2", w.now)
			w.rec.DidResize(w.rec.Pod, nil, []string{"app"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, podOf(test.policy, "app"))
			w.settle()
			test.change(w)
			if a := w.rec.Next(w.now); a.Kind != StopContainer {
				t.Fatalf("next is %+v, want it stopped", a)
			}
			w.exit("app", 0)
			s := w.status().ContainerStatuses[0]
			if s.State.Waiting == nil || s.State.Waiting.Reason != "ContainerCreating" {
				t.Errorf("between its runs it is shown as %+v", s.State)
			}
			if last := s.LastTerminationState.Terminated; last == nil || last.ExitCode != 0 || last.ContainerID != "test://c2" {
				t.Errorf("its last run is shown as %+v", last)
			}
			w.phase(v1.PodRunning)
			w.rec.Update(deleted(w.rec.Pod, 30), w.now)
			if s := w.status().ContainerStatuses[0]; s.State.Terminated == nil || s.LastTerminationState.Terminated != nil {
				t.Errorf("of a pod that ends it is shown as %+v", s)
			}
		})
	}
}

// An init container that was to run again, and did not before its pod ended, ended as it
// did in the sandbox before.
func TestAnInitContainerThatRanBeforeEndedSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyOnFailure, "init1", "init2", "app"))
	w.settle()
	w.exit("init1", 0)
	w.settle()
	w.exit("init2", 0)
	w.settle()
	w.rec.Sandbox.Ready = false
	w.settle() // init1 runs again
	w.rec.Update(deleted(w.rec.Pod, 30), w.now)
	w.settle()
	st := w.status()
	if s := st.InitContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 143 || s.LastTerminationState.Terminated == nil {
		t.Errorf("the one that ran is shown as %+v", s)
	}
	if s := st.InitContainerStatuses[1]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 || s.LastTerminationState.Terminated != nil {
		t.Errorf("the one that did not is shown as %+v", s)
	}
}
