package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A pod that somebody else has told to be over is ended, and stays what it was told
// to be: whoever waits for that, such as its controller, sees it.
func TestAPodThatOthersSayIsOverEnds(t *testing.T) {
	t.Parallel()
	for _, phase := range []v1.PodPhase{v1.PodFailed, v1.PodSucceeded} {
		w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
		w.settle()
		w.phase(v1.PodRunning)
		w.log = nil
		p := w.rec.Pod.DeepCopy()
		p.Status.Phase, p.Status.Reason = phase, "Enough"
		w.rec.Update(p, w.now)
		w.phase(phase)
		w.settle()
		w.expect("stop all", "tear down")
		w.phase(phase)
		if got := w.status().Reason; got != "Enough" {
			t.Errorf("reason %q, want the one that was given", got)
		}
	}
}

// The end that the agent itself has told ends nothing: it was over.
func TestTheEchoOfAnEndEndsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyNever, "app"))
	w.settle()
	w.exit("app", 0)
	w.settle()
	p := w.rec.Pod.DeepCopy()
	p.Status = w.status()
	w.rec.Update(p, w.now)
	if w.rec.Ended != nil || !w.rec.KillSince.IsZero() {
		t.Errorf("it is being ended: %+v", w.rec.Ended)
	}
	w.phase(v1.PodSucceeded)
}
