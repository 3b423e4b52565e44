package host_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host"
)

func jobOf(name string, ttl *int32) *batchv1.Job {
	spec := plainPod("").Spec
	spec.RestartPolicy = v1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), CompletionMode: ptr.To(batchv1.IndexedCompletion),
		TTLSecondsAfterFinished: ttl, Template: v1.PodTemplateSpec{Spec: spec},
	}}
}

// events are what happens to a job's pods, and to the job.
func events(t *testing.T, client kubernetes.Interface, job *batchv1.Job) (pods, jobs <-chan watch.Event) {
	t.Helper()
	p, err := client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job.Name})
	if err != nil {
		t.Fatal(err)
	}
	j, err := client.BatchV1().Jobs("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + job.Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(); j.Stop() })
	if _, err := client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return p.ResultChan(), j.ResultChan()
}

func next[T any](t *testing.T, events <-chan watch.Event) (watch.EventType, T) {
	t.Helper()
	e, ok := <-events
	o, is := e.Object.(T)
	if !ok || !is {
		t.Fatalf("the watch ended with %v", e)
	}
	return e.Type, o
}

// added is the next pod that is made.
func added(t *testing.T, pods <-chan watch.Event) *v1.Pod {
	t.Helper()
	for {
		if what, p := next[*v1.Pod](t, pods); what == watch.Added {
			return p
		}
	}
}

// The job controller counts pods that end, and deletes the job when its time is
// over, with nobody's help.
func TestAJobCompletesAndGoes(t *testing.T) {
	t.Parallel()
	client, _, _ := start(t, t.TempDir())
	pods, jobs := events(t, client, jobOf("pi", ptr.To[int32](1)))
	for range 2 {
		name := added(t, pods).Name
		_, err := client.CoreV1().Pods("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
	for {
		what, j := next[*batchv1.Job](t, jobs)
		if what != watch.Deleted {
			continue
		}
		if s := j.Status; s.CompletedIndexes != "0,1" || s.Succeeded != 2 || s.CompletionTime == nil {
			t.Errorf("the job went with status %+v", s)
		}
		return
	}
}

// What becomes an orphan bears nothing of its job.
func TestPodsStayWithoutTheirJob(t *testing.T) {
	t.Parallel()
	client, _, _ := start(t, t.TempDir())
	pods, _ := events(t, client, jobOf("pi", nil))
	bound := map[string]bool{added(t, pods).Name: true, added(t, pods).Name: true}
	orphan := metav1.DeletePropagationOrphan
	if err := client.BatchV1().Jobs("default").Delete(t.Context(), "pi", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	for len(bound) > 0 {
		what, p := next[*v1.Pod](t, pods)
		if what == watch.Deleted {
			t.Fatalf("pod %s went", p.Name)
		}
		if len(p.OwnerReferences)+len(p.Finalizers) == 0 {
			delete(bound, p.Name)
		}
	}
}

func TestPodsGoWithTheirJob(t *testing.T) {
	t.Parallel()
	client, _, _ := start(t, t.TempDir())
	for _, how := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		job := jobOf("pi", nil)
		pods, jobs := events(t, client, job)
		for range 2 {
			if p := added(t, pods); len(p.Finalizers) != 1 {
				t.Errorf("pod %s has finalizers %q", p.Name, p.Finalizers)
			}
		}
		if err := client.BatchV1().Jobs("default").Delete(t.Context(), "pi", metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
			t.Fatal(err)
		}
		for left := 2; left > 0; {
			if what, _ := next[*v1.Pod](t, pods); what == watch.Deleted {
				left--
			}
		}
		for what := watch.Added; what != watch.Deleted; {
			what, _ = next[*batchv1.Job](t, jobs)
		}
	}
}

// A Job may wait for its pods to have failed. One that was never bound, or whose
// Node is gone, has no agent that would say so.
func TestAJobReplacesAPodThatNoNodeEnds(t *testing.T) {
	t.Parallel()
	for name, bind := range map[string]bool{"never bound": false, "its node is gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pace atomic.Int64 // how many times as fast the host's time goes
			began := time.Now()
			client, _, _ := start(t, t.TempDir(), func(c *host.Config) {
				c.Now = func() time.Time { return time.Now().Add(time.Duration(pace.Load()) * time.Since(began)) }
			})
			if bind {
				createNode(t, client, "n1")
			}
			job := jobOf("pi", nil)
			job.Spec.Parallelism, job.Spec.Completions = ptr.To[int32](1), ptr.To[int32](1)
			job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
			pods, jobs := events(t, client, job)
			first := added(t, pods)
			if bind {
				bound(t, client, first.Name)
				if err := client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			} else if err := client.CoreV1().Pods("default").Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			pace.Store(60)
			failed := first
			for failed.Status.Phase != v1.PodFailed {
				_, failed = next[*v1.Pod](t, pods)
			}
			disrupted := slices.ContainsFunc(failed.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget })
			if disrupted != bind {
				t.Errorf("the pod ended with conditions %+v", failed.Status.Conditions)
			}
			if second := added(t, pods); second.UID == first.UID {
				t.Errorf("pod %s was added twice", first.Name)
			}
			for status := (batchv1.JobStatus{}); status.Failed != 1 || status.Active != 1; {
				_, j := next[*batchv1.Job](t, jobs)
				status = j.Status
			}
		})
	}
}
