package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
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
		w.SetPods(nil, controllertest.Ended(0))
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

// end ends pods that run, with an exit code.
func (w world) end(code int32, which func(*v1.Pod) bool) {
	w.T.Helper()
	w.SetPods(func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning && (which == nil || which(p)) }, controllertest.Ended(code))
	w.Wait(time.Second)
}

func indexIs(index string) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return p.Annotations[batchv1.JobCompletionIndexAnnotation] == index }
}

func TestPodsOfAnIndexedJob(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(times(2, 3), indexed, func(s *batchv1.JobSpec) {
			s.Template.Finalizers = []string{"x/y"}
			s.Template.Labels, s.Template.Annotations = map[string]string{"mine": "1"}, map[string]string{"note": "<&>"}
			s.Template.Spec.InitContainers = []v1.Container{{Name: "init", Image: "i:1", Env: []v1.EnvVar{{Name: "A", Value: "1"}}}}
			s.Template.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80}}
		}))
		w.Wait(time.Second)
		list := w.pods()
		if len(list) != 2 {
			t.Fatalf("%d pods, want 2: %q", len(list), w.Events())
		}
		p := list[1]
		ref := &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['batch.kubernetes.io/job-completion-index']"}}
		env := v1.EnvVar{Name: "JOB_COMPLETION_INDEX", ValueFrom: ref}
		w.want("generated name", p.GenerateName, "pi-1-")
		w.want("hostname", p.Spec.Hostname, "pi-1")
		w.want("label", p.Labels[batchv1.JobCompletionIndexAnnotation]+p.Labels["mine"], "11")
		w.want("annotations", p.Annotations, map[string]string{batchv1.JobCompletionIndexAnnotation: "1", "note": "<&>"})
		w.want("finalizers", p.Finalizers, []string{"x/y", batchv1.JobTrackingFinalizer})
		w.want("env of the init container", p.Spec.InitContainers[0].Env, []v1.EnvVar{{Name: "A", Value: "1"}, env})
		w.want("env of the container", p.Spec.Containers[0].Env, []v1.EnvVar{env})
		w.want("ports", p.Spec.Containers[0].Ports[0].ContainerPort, int32(80))

		w.end(0, indexIs("1"))
		w.want("completed indexes", w.job().Status.CompletedIndexes, "1")
		w.end(0, nil)
		w.want("completed indexes", w.job().Status.CompletedIndexes, "0-2")
		w.want("conditions", w.conditions(), "SuccessCriteriaMet=True/CompletionsReached Complete=True/CompletionsReached")
		w.want("finalizers", w.pods()[0].Finalizers, []string{"x/y"})
	})
}

func TestNamesOfIndexesAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 60)
	if got, want := generatedName(long, "-17-"), long[:54]+"-17-"; got != want {
		t.Errorf("generatedName = %q, want %q", got, want)
	}
	if got := generatedName("pi", "-17-"); got != "pi-17-" {
		t.Errorf("generatedName = %q", got)
	}
}

func TestAQueueEndsWithItsFirstSuccess(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To[int32](3), nil }))
		w.Wait(time.Second)
		first := w.pods()[0].Name
		w.end(0, func(p *v1.Pod) bool { return p.Name == first })
		w.want("counts", w.counts(), "2/2/0 1+0")
		w.want("conditions", w.conditions(), "")
		w.end(1, func(p *v1.Pod) bool { return p.Name == w.pods()[1].Name })
		w.end(0, nil)
		w.want("pods", len(w.pods()), 3)
		w.want("conditions", w.conditions(), "SuccessCriteriaMet=True/CompletionsReached Complete=True/CompletionsReached")
		w.want("counts", w.counts(), "0/0/0 2+1")
	})
}

func TestParallelismMayChange(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(times(3, 10)))
		w.Wait(time.Second)
		w.change(func(s *batchv1.JobSpec) { s.Parallelism = ptr.To[int32](1) })
		w.Wait(time.Second)
		w.want("counts", w.counts(), "1/1/0 0+0")
		w.want("pods", len(w.pods()), 1)
		w.change(func(s *batchv1.JobSpec) { s.Parallelism = ptr.To[int32](5) })
		w.Wait(time.Second)
		w.want("counts", w.counts(), "5/5/0 0+0")
	})
}

func TestACompletedIndexedJobGrowsAndShrinks(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(times(3, 3), indexed))
		w.Wait(time.Second)
		w.end(0, indexIs("0"))
		w.end(0, indexIs("2"))
		w.want("completed indexes", w.job().Status.CompletedIndexes, "0,2")
		w.change(times(5, 5))
		w.Wait(time.Second)
		w.want("counts", w.counts(), "3/3/0 2+0")
		w.change(times(2, 2))
		w.Wait(time.Second)
		w.want("completed indexes", w.job().Status.CompletedIndexes, "0")
		w.want("counts", w.counts(), "1/1/0 1+0")
		w.end(0, nil)
		w.want("conditions", w.conditions(), "SuccessCriteriaMet=True/CompletionsReached Complete=True/CompletionsReached")
	})
}

func TestASuspendedJobHasNoPods(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) }))
		w.Wait(time.Second)
		w.want("pods", len(w.pods()), 0)
		w.want("conditions", w.conditions(), "Suspended=True/JobSuspended")
		w.want("start", w.job().Status.StartTime == nil, true)
		w.want("events", w.events(), []string{"pi Normal Suspended: Job suspended"})

		w.change(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(false) })
		w.Wait(time.Second)
		w.want("counts", w.counts(), "2/2/0 0+0")
		w.want("conditions", w.conditions(), "Suspended=False/JobResumed")
		w.want("start", w.job().Status.StartTime != nil, true)
		w.want("events", w.events(), []string{"pi Normal Resumed: Job resumed"})

		w.change(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) })
		w.Wait(time.Second)
		w.want("pods", len(w.pods()), 0)
		w.want("counts", w.counts(), "0/0/0 0+0")
		w.want("start", w.job().Status.StartTime == nil, true)
	})
}

func TestADeadlineEndsAJob(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](30) }))
		w.Wait(29 * time.Second)
		w.want("conditions", w.conditions(), "")
		w.Wait(2 * time.Second)
		w.want("conditions", w.conditions(), "FailureTarget=True/DeadlineExceeded Failed=True/DeadlineExceeded")
		w.want("counts", w.counts(), "0/0/0 0+2")
		w.want("events", w.events(), []string{"pi Warning DeadlineExceeded: Job was active longer than specified deadline"})
	})
}

// A job that is suspended in time has its whole time again.
func TestADeadlineStandsStillWhileSuspended(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](30) }))
		w.Wait(20 * time.Second)
		w.change(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) })
		w.Wait(time.Minute)
		w.change(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(false) })
		w.Wait(29 * time.Second)
		w.want("conditions", w.conditions(), "Suspended=False/JobResumed")
		w.Wait(2 * time.Second)
		w.want("conditions", w.conditions(), "Suspended=False/JobResumed FailureTarget=True/DeadlineExceeded Failed=True/DeadlineExceeded")
	})
}

func TestAJobGoesWhenItsTimeIsOver(t *testing.T) {
	play(t, func(w world) {
		w.Start(controllertest.Ended(0))
		w.create(wanted(times(1, 1), func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](100) }))
		w.Wait(99 * time.Second)
		w.want("deletion", w.job().DeletionTimestamp == nil, true)
		w.Wait(2 * time.Second)
		w.want("deletion", w.job().DeletionTimestamp != nil, true)
		w.want("finalizers", w.job().Finalizers, []string{metav1.FinalizerDeleteDependents})
		w.want("events", w.Events()[1:], []string{"pi Normal Completed: Job completed"})
	})
}

func TestDeletedPodsAreReplacedLaterAndLater(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(times(1, 1)))
		w.Wait(time.Second)
		for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second} {
			w.Delete("pods", w.pods()[0].Name, &metav1.DeleteOptions{})
			w.Wait(pause - 2*time.Second)
			w.want("pods before the pause is over", len(w.pods()), 0)
			w.Wait(4 * time.Second)
			w.want("pods after it", len(w.pods()), 1)
		}
		w.want("counts", w.counts(), "1/1/0 0+2")
	})
}

// hold gives a pod a finalizer, so that it stays while it is deleted.
func (w world) hold(name string) {
	w.T.Helper()
	w.SetPod(name, func(p *v1.Pod) { p.Finalizers = append(p.Finalizers, "x/hold") })
}

func TestAJobEndsWhenItsPodsAreGone(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(times(2, 2), func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](30) }))
		w.Wait(time.Second)
		for _, p := range w.pods() {
			w.hold(p.Name)
		}
		w.Wait(30 * time.Second)
		w.want("conditions", w.conditions(), "FailureTarget=True/DeadlineExceeded")
		w.want("counts", w.counts(), "0/0/2 0+2")
		w.want("pods that are tracked", w.tracked(), 0)
		w.SetPods(nil, controllertest.Ended(143))
		w.Wait(time.Second)
		w.want("conditions", w.conditions(), "FailureTarget=True/DeadlineExceeded Failed=True/DeadlineExceeded")
		w.want("counts", w.counts(), "0/0/0 0+2")
	})
}

func TestPodsThatRestartCountTheirRestarts(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(times(1, 1), limit(2), func(s *batchv1.JobSpec) { s.Template.Spec.RestartPolicy = v1.RestartPolicyOnFailure }))
		w.Wait(time.Second)
		restarts := func(n int32) {
			w.SetPod(w.pods()[0].Name, func(p *v1.Pod) {
				p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "init", RestartCount: 1}}
				p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", RestartCount: n}}
			})
			w.Wait(time.Second)
		}
		restarts(0)
		w.want("conditions", w.conditions(), "")
		restarts(1)
		w.want("conditions", w.conditions(), "FailureTarget=True/BackoffLimitExceeded Failed=True/BackoffLimitExceeded")
	})
}

func TestPodsAreAdoptedAndReleased(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted())
		w.Wait(time.Second)
		first, second := w.pods()[0].Name, w.pods()[1].Name
		w.SetPod(first, func(p *v1.Pod) { p.OwnerReferences, p.Finalizers = nil, nil })
		w.Wait(time.Second)
		adopted := controllertest.Get[*v1.Pod](w.World, "pods", first)
		w.want("owners of the orphan", len(adopted.OwnerReferences), 1)
		w.want("its finalizers", adopted.Finalizers, []string{batchv1.JobTrackingFinalizer})

		w.SetPod(second, func(p *v1.Pod) { p.Labels = map[string]string{"mine": "no-more"} })
		w.Wait(time.Second)
		released := controllertest.Get[*v1.Pod](w.World, "pods", second)
		w.want("what it has of the job", len(released.OwnerReferences)+len(released.Finalizers), 0)
		w.want("counts", w.counts(), "2/2/0 0+0")
	})
}

func TestAnOrphanThatGoesIsFree(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted())
		w.Wait(time.Second)
		name := w.pods()[0].Name
		w.SetPod(name, func(p *v1.Pod) { p.OwnerReferences, p.DeletionTimestamp = nil, ptr.To(metav1.Now()) })
		w.Wait(time.Second)
		if p := controllertest.Get[*v1.Pod](w.World, "pods", name); p != nil && len(p.Finalizers) > 0 {
			t.Errorf("the pod has finalizers %q", p.Finalizers)
		}
		w.want("counts", w.counts(), "2/2/0 0+0")
	})
}

func TestPodsAreFreeWhenTheirJobIsGone(t *testing.T) {
	t.Parallel()
	for _, how := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(how), func(t *testing.T) {
			play(t, func(w world) {
				w.create(wanted())
				w.Wait(time.Second)
				w.want("pods that are tracked", w.tracked(), 2)
				w.Delete("jobs.batch", "pi", &metav1.DeleteOptions{PropagationPolicy: &how})
				w.Wait(time.Second)
				if n := w.tracked(); n > 0 || len(w.pods()) != 2 {
					t.Errorf("%d of %d pods are tracked, want none of 2", n, len(w.pods()))
				}
			})
		})
	}
}

func TestAnothersJobIsLeftAlone(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted(func(s *batchv1.JobSpec) { s.ManagedBy = ptr.To("example.com/other") }))
		w.Wait(time.Second)
		w.want("pods", len(w.pods()), 0)
		w.want("status", w.job().Status, batchv1.JobStatus{})
	})
}

// A condition that users set stays.
func TestConditionsOfOthersStay(t *testing.T) {
	play(t, func(w world) {
		w.create(wanted())
		w.Wait(time.Second)
		controllertest.Change(w.World, "jobs.batch", "status", "pi", func(j *batchv1.Job) {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: "Custom", Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()})
		})
		w.end(1, nil)
		w.want("conditions", w.conditions(), "Custom=True/")
		w.want("counts", w.counts(), "0/0/0 0+2")
	})
}

func TestAFinishedJobLetsGoOfPods(t *testing.T) {
	play(t, func(w world) {
		w.Start(controllertest.Ended(0))
		w.create(wanted(times(1, 1)))
		w.Wait(time.Second)
		w.SetPod(w.pods()[0].Name, func(p *v1.Pod) { p.Finalizers = []string{batchv1.JobTrackingFinalizer} })
		w.Wait(time.Second)
		w.want("pods that are tracked", w.tracked(), 0)
		w.want("counts", w.counts(), "0/0/0 1+0")
	})
}

func TestNothingToDo(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(*batchv1.JobSpec){"at once": times(2, 0), "indexed": func(s *batchv1.JobSpec) { times(0, 0)(s); indexed(s) }} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w world) {
				w.create(wanted(say))
				w.Wait(time.Second)
				w.want("conditions", w.conditions(), "SuccessCriteriaMet=True/CompletionsReached Complete=True/CompletionsReached")
			})
		})
	}
}

func TestLargeJobsTakeSeveralAnswers(t *testing.T) {
	play(t, func(w world) {
		w.Start(controllertest.Ended(0))
		w.create(wanted(times(1500, 1500), indexed))
		w.Wait(10 * time.Second)
		w.want("conditions", w.conditions(), "SuccessCriteriaMet=True/CompletionsReached Complete=True/CompletionsReached")
		w.want("completed indexes", w.job().Status.CompletedIndexes, "0-1499")
		w.want("pods", len(w.pods()), 1500)
		w.want("pods that are tracked", w.tracked(), 0)
	})
}

// why is what the guest says of a job among pods.
func why(t *testing.T, j *batchv1.Job, others ...store.Object) string {
	t.Helper()
	j.UID, j.Spec.Selector = "job", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "pi"}}
	return strings.Join(controllertest.Ask(t, "Job", now, j, others...).Why, "; ")
}

func TestWhyAJobWaits(t *testing.T) {
	t.Parallel()
	pod := func(say func(*v1.Pod)) *v1.Pod {
		p := inventor{rand.New(rand.NewPCG(1, 1))}.pod(0)
		p.Labels, p.Finalizers = map[string]string{"app": "pi"}, []string{batchv1.JobTrackingFinalizer}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "pi", UID: "job", Controller: ptr.To(true)}}
		p.Status, p.DeletionTimestamp = v1.PodStatus{}, nil
		say(p)
		return p
	}
	failedNow := pod(func(p *v1.Pod) { p.Status.Phase, p.CreationTimestamp = v1.PodFailed, metav1.NewTime(now) })
	going := pod(func(p *v1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(now)) })
	for _, tt := range []struct {
		what string
		job  *batchv1.Job
		pods []store.Object
		want string
	}{
		{"it runs", wanted(), nil, "0 of 4 completions are reached, and it waits for 2 active pods"},
		{"a queue", wanted(func(s *batchv1.JobSpec) { s.Completions = nil }), nil, "0 pods succeeded, and it waits for 2 active pods"},
		{"suspended", wanted(func(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) }), nil, "it is suspended: 0 of 4 completions are reached"},
		{"a pause", wanted(times(1, 1)), []store.Object{failedNow}, "0 of 1 completions are reached, and pods that failed are replaced in 10 seconds"},
		{"too many failures", wanted(times(1, 1), limit(0)), []store.Object{failedNow, going}, "it has come to its end (BackoffLimitExceeded) and waits for 1 pod to go"},
		{
			"replaced late", wanted(times(1, 1), func(s *batchv1.JobSpec) { s.PodReplacementPolicy = ptr.To(batchv1.Failed) }), []store.Object{going},
			"0 of 1 completions are reached, and before they are replaced 1 pod must end",
		},
	} {
		for i, o := range tt.pods {
			p := o.DeepCopyObject().(*v1.Pod)
			p.Name, p.UID = fmt.Sprint("p", i), types.UID(fmt.Sprint("p", i))
			tt.pods[i] = p
		}
		if got := why(t, tt.job, tt.pods...); got != tt.want {
			t.Errorf("%s: why = %q, want %q", tt.what, got, tt.want)
		}
	}
}

// What one commit would take too long for, or does not hold, is done by several.
func TestAJobOfManyPodsEndsByAndBy(t *testing.T) {
	t.Parallel()
	const most = 500
	job := func() *batchv1.Job {
		j := wanted(times(most+7, most+7), func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](1) })
		j.UID, j.Spec.Selector = "job", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "pi"}}
		j.Status.StartTime = ptr.To(metav1.NewTime(now.Add(-time.Minute)))
		return j
	}
	pods := func(phase v1.PodPhase, finalizers ...string) (all []store.Object) {
		for i := range most + 7 {
			all = append(all, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprint("p", i), Namespace: "default", UID: types.UID(fmt.Sprint("p", i)), Labels: map[string]string{"app": "pi"}, Finalizers: finalizers,
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "pi", UID: "job", Controller: ptr.To(true)}},
				},
				Status: v1.PodStatus{Phase: phase},
			})
		}
		return all
	}
	out := controllertest.Ask(t, "Job", now, job(), pods(v1.PodRunning)...)
	status := controllertest.Status[batchv1.JobStatus](t, out)
	if len(out.Delete) != most || !out.Step || status.Active != 7 || *status.Terminating != most || len(status.Conditions) != 1 || status.Conditions[0].Type != batchv1.JobFailureTarget {
		t.Errorf("%d deletions, status %+v", len(out.Delete), status)
	}
	out = controllertest.Ask(t, "Job", now, job(), pods(v1.PodFailed, tracking)...)
	if len(out.Patch) != most || !out.Step {
		t.Errorf("of pods that are counted it frees %d, want %d, and the rest next", len(out.Patch), most)
	}
	finished := job()
	finished.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: v1.ConditionTrue}}
	out = controllertest.Ask(t, "Job", now, finished, pods(v1.PodFailed, tracking)...)
	if len(out.Patch) != most || !out.Step {
		t.Errorf("of pods of a finished job it frees %d, want %d, and the rest next", len(out.Patch), most)
	}
}
