package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
)

// wanted is a Job of a user.
func wanted(say ...func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "pi", Namespace: "default"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](4), BackoffLimit: ptr.To[int32](6),
			Template: v1.PodTemplateSpec{Spec: v1.PodSpec{
				RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "c", Image: "i:1"}},
			}},
		},
	}
	for _, s := range say {
		s(&j.Spec)
	}
	return j
}

func times(parallelism, completions int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = &parallelism, &completions }
}

func limit(n int32) func(*batchv1.JobSpec) { return func(s *batchv1.JobSpec) { s.BackoffLimit = &n } }

func indexed(s *batchv1.JobSpec) { s.CompletionMode = ptr.To(batchv1.IndexedCompletion) }

// world is a cluster with one job.
type world struct{ *controllertest.World }

func play(t *testing.T, test func(w world)) {
	t.Helper()
	t.Parallel()
	controllertest.Play(t, []string{"Job"}, func(w *controllertest.World) { test(world{w}) })
}

func (w world) job() *batchv1.Job {
	return controllertest.Get[*batchv1.Job](w.World, "jobs.batch", "pi")
}

func (w world) pods() []*v1.Pod { return controllertest.List[*v1.Pod](w.World, "pods") }

func (w world) create(j *batchv1.Job) { w.Create("jobs.batch", j) }

func (w world) change(f func(*batchv1.JobSpec)) {
	w.T.Helper()
	controllertest.Change(w.World, "jobs.batch", "", "pi", func(j *batchv1.Job) { f(&j.Spec) })
}

// events are those of reasons other than the pods' own.
func (w world) events() (list []string) {
	for _, e := range w.Events() {
		if !strings.Contains(e, "SuccessfulCreate") && !strings.Contains(e, "SuccessfulDelete") {
			list = append(list, e)
		}
	}
	return list
}

func (w world) conditions() string {
	var list []string
	for _, c := range w.job().Status.Conditions {
		list = append(list, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(list, " ")
}

func (w world) want(what string, got, want any) {
	w.T.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.T.Errorf("%s (-want +got):\n%s\nstatus %+v\nevents %q", what, diff, w.job().Status, w.Events())
	}
}

// counts are active, ready, terminating, succeeded and failed pods.
func (w world) counts() string {
	s := w.job().Status
	return fmt.Sprintf("%d/%d/%d %d+%d", s.Active, ptr.Deref(s.Ready, -1), ptr.Deref(s.Terminating, -1), s.Succeeded, s.Failed)
}

func (w world) tracked() (n int) {
	for _, p := range w.pods() {
		if slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
			n++
		}
	}
	return n
}

func TestAJobRunsToCompletion(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted())
		w.Wait(time.Second)
		w.want("counts", w.counts(), "2/2/0 0+0")
		w.want("pods that are tracked", w.tracked(), 2)
		w.Start(controllertest.Ended(0))
		for _, p := range w.pods() {
			w.SetPod(p.Name, controllertest.Ended(0))
		}
		w.Wait(time.Second)
		w.want("counts", w.counts(), "0/0/0 4+0")
		w.want("pods that are tracked", w.tracked(), 0)
		w.want("conditions", w.conditions(), "SuccessCriteriaMet=True/CompletionsReached Complete=True/CompletionsReached")
		s := w.job().Status
		if s.CompletionTime == nil || s.StartTime == nil || s.UncountedTerminatedPods == nil || len(s.UncountedTerminatedPods.Succeeded) > 0 {
			t.Errorf("status %+v", s)
		}
		w.want("events", w.events(), []string{"pi Normal Completed: Job completed"})
	})
}

func TestFailuresAreReplacedLaterAndLater(t *testing.T) {
	play(t, func(w world) {
		w.Start(controllertest.Ended(1))
		w.create(wanted(times(1, 1), limit(3)))
		w.Wait(time.Second)
		for n, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
			w.Wait(pause - 2*time.Second)
			w.want("pods before the pause is over", len(w.pods()), n+1)
			w.Wait(2 * time.Second)
			w.want("pods after it", len(w.pods()), n+2)
		}
		w.want("conditions", w.conditions(), "FailureTarget=True/BackoffLimitExceeded Failed=True/BackoffLimitExceeded")
		w.want("counts", w.counts(), "0/0/0 0+4")
		w.want("events", w.events(), []string{"pi Warning BackoffLimitExceeded: Job has reached the specified backoff limit"})
	})
}
