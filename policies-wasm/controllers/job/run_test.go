package job

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	upstream "k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

// TestMain lets upstream's controller go on where objects have no versions, as
// those of its client's fake server.
func TestMain(m *testing.M) {
	if err := utilfeature.DefaultMutableFeatureGate.Set("StaleControllerConsistencyJob=false"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// How long a run is watched, and when the jobs are suspended in it that are.
const (
	whole     = 6 * time.Hour
	suspendAt = 345 * time.Second
	resumeAt  = 777 * time.Second
)

// plot is what becomes of a job's pods: the same for the same index and attempt,
// or of other jobs for the pods in the order in which they came.
type plot struct {
	seed      uint64
	suspended bool
	suspendAt time.Duration

	mu   sync.Mutex
	seen map[string]int
}

// fate is how a pod ends: with an exit code after some time, or deleted.
type fate struct {
	after   time.Duration
	code    int32
	deleted bool
}

func (p *plot) fate(pod *v1.Pod) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	index := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	if p.seen == nil {
		p.seen = map[string]int{}
	}
	p.seen[index]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", index, p.seen[index])
	r := rand.New(rand.NewPCG(p.seed, h.Sum64()))
	// Pauses are tens of seconds: their end is not that of another pod.
	f := fate{after: time.Duration(100*(1+r.IntN(4))+7*r.IntN(8)) * time.Second}
	switch r.IntN(6) {
	case 0, 1:
		f.code = 1 + r.Int32N(3)
	case 2:
		f.deleted = true
	}
	return f
}

// invented makes up a job and its plot, with a suspension that comes later.
func invented(seed uint64, later time.Duration) (*batchv1.Job, *plot) {
	r := inventor{rand.New(rand.NewPCG(seed, 2))}
	s := r.state()
	for s.job.DeletionTimestamp != nil || s.job.Spec.ManagedBy != nil {
		s = r.state()
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "pi", Namespace: "default"}, Spec: s.job.Spec}
	j.Spec.ManualSelector, j.Spec.Suspend, j.Spec.ActiveDeadlineSeconds = ptr.To(true), ptr.To(false), nil
	if r.one(3) {
		j.Spec.ActiveDeadlineSeconds = ptr.To(600 + r.Int64N(900))
	}
	j.Spec.Template.Spec.RestartPolicy, j.Spec.Template.Finalizers = v1.RestartPolicyNever, nil
	if j.Spec.SuccessPolicy != nil && *j.Spec.Completions == 0 {
		j.Spec.SuccessPolicy = nil
	}
	if j.Spec.SuccessPolicy != nil {
		j.Spec.SuccessPolicy.Rules = []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To(max(1, *j.Spec.Completions-1))}}
	}
	if n := j.Spec.MaxFailedIndexes; n != nil {
		*n = min(*n, *j.Spec.Completions)
	}
	if rules := j.Spec.PodFailurePolicy; rules != nil {
		for i := range rules.Rules {
			if on := rules.Rules[i].OnExitCodes; on != nil && on.ContainerName != nil {
				on.ContainerName = ptr.To("c")
			}
		}
	}
	return j, &plot{seed: seed, suspended: r.one(4), suspendAt: suspendAt + later}
}

// outcome is what is the same of two runs.
func outcome(j *batchv1.Job) string {
	s := &j.Status
	var conditions []string
	for _, c := range s.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s/%s %s", c.Type, c.Status, c.Reason, ofAny(c.Message)))
	}
	return fmt.Sprintf("%s\n%d active, %d ready, %d terminating, %d succeeded, %d failed, completed %q, failed %q", strings.Join(conditions, "\n"),
		s.Active, ptr.Deref(s.Ready, -1), ptr.Deref(s.Terminating, -1), s.Succeeded, s.Failed, s.CompletedIndexes, ptr.Deref(s.FailedIndexes, "none"))
}

// end is the pod's status at its end.
func (f fate) end(p *v1.Pod) {
	if f.deleted {
		f.code = 143
	}
	controllertest.Ended(f.code)(p)
}

// grace is how long a pod that is deleted goes on.
const grace = 5 * time.Second

func pass(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// guestRuns is how the job ends by the guest.
func guestRuns(t *testing.T, seed uint64, later time.Duration) (end string) {
	t.Helper()
	controllertest.Play(t, []string{"Job"}, func(w *controllertest.World) {
		j, p := invented(seed, later)
		ctx := w.T.Context()
		w.Start(func(pod *v1.Pod) {
			controllertest.Ready(pod)
			f, name := p.fate(pod), pod.Name
			go func() {
				if !pass(ctx, f.after) {
					return
				}
				if f.deleted {
					_, _, err := w.Registry.Delete(ctx, registry.On("pods", "default", name), &metav1.DeleteOptions{})
					_ = err // the job was quicker
					if !pass(ctx, grace) {
						return
					}
				}
				_, err := w.Store.Update(ctx, store.Key{Resource: "pods", Namespace: "default", Name: name}, func(o store.Object) (store.Object, error) {
					next := o.DeepCopyObject().(*v1.Pod)
					f.end(next)
					return next, nil
				})
				_ = err // as above
			}()
		})
		w.Create("jobs.batch", j)
		suspend := func(is bool) {
			if finished(controllertest.Get[*batchv1.Job](w, "jobs.batch", "pi")) {
				return
			}
			controllertest.Change(w, "jobs.batch", "", "pi", func(j *batchv1.Job) { j.Spec.Suspend = &is })
		}
		if p.suspended {
			w.Wait(p.suspendAt)
			suspend(true)
			w.Wait(resumeAt - p.suspendAt)
			suspend(false)
		}
		w.Wait(whole)
		end = outcome(controllertest.Get[*batchv1.Job](w, "jobs.batch", "pi"))
	})
	return end
}

func finished(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == v1.ConditionTrue
	})
}

// upstreamRuns is how the job ends by upstream's controller.
func upstreamRuns(t *testing.T, seed uint64, later time.Duration) (end string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j, p := invented(seed, later)
		j.UID = "job"
		client := controllertest.Clientset(j)
		made := 0
		client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			pod := a.(clienttesting.CreateAction).GetObject().(*v1.Pod)
			made++
			pod.Name = fmt.Sprintf("%s%d", pod.GenerateName, made)
			pod.UID, pod.CreationTimestamp = types.UID("uid-"+pod.Name), metav1.Now()
			return false, nil, nil
		})
		withVersions(client)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		var running sync.WaitGroup
		pods, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { nodeOf(ctx, client, p, pods, &running) })
		factory := informers.NewSharedInformerFactory(client, 0)
		c, err := upstream.NewController(ctx, client, factory.Core().V1().Pods(), factory.Batch().V1().Jobs(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		factory.Start(ctx.Done())
		running.Go(func() { c.Run(ctx, 1) })
		jobs := client.BatchV1().Jobs("default")
		get := func() *batchv1.Job {
			j, err := jobs.Get(ctx, "pi", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		suspend := func(is bool) {
			if j := get(); !finished(j) {
				j.Spec.Suspend = &is
				j.Generation++
				if _, err := jobs.Update(ctx, j, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if p.suspended {
			time.Sleep(p.suspendAt)
			suspend(true)
			time.Sleep(resumeAt - p.suspendAt)
			suspend(false)
		}
		time.Sleep(whole)
		synctest.Wait()
		end = outcome(get())
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	return end
}

// withVersions gives each state of an object one of its own: upstream's
// controller looks at no others.
func withVersions(client *fake.Clientset) {
	last := 0
	next := func(o runtime.Object) {
		last++
		o.(metav1.Object).SetResourceVersion(strconv.Itoa(last))
	}
	client.PrependReactor("update", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		next(a.(clienttesting.UpdateAction).GetObject())
		return false, nil, nil
	})
	apply := clienttesting.ObjectReaction(client.Tracker())
	client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		_, o, err := apply(a)
		if err == nil {
			o = o.DeepCopyObject()
			next(o)
			err = client.Tracker().Update(a.GetResource(), o, a.GetNamespace())
		}
		return true, o, err
	})
}

// nodeOf runs the pods of a client that is none of a server: it takes away what
// is being deleted once nothing holds it.
func nodeOf(ctx context.Context, client kubernetes.Interface, p *plot, events watch.Interface, running *sync.WaitGroup) {
	defer events.Stop()
	pods := client.CoreV1().Pods("default")
	change := func(name string, f func(*v1.Pod)) {
		have, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return // it is gone
		}
		f(have)
		_, err = pods.Update(ctx, have, metav1.UpdateOptions{})
		_ = err // as above
	}
	for {
		var e watch.Event
		select {
		case <-ctx.Done():
			return
		case e = <-events.ResultChan():
		}
		pod, ok := e.Object.(*v1.Pod)
		switch {
		case !ok || e.Type == watch.Deleted:
		case e.Type == watch.Added:
			f := p.fate(pod)
			change(pod.Name, controllertest.Ready)
			running.Go(func() {
				if !pass(ctx, f.after) {
					return
				}
				if f.deleted {
					change(pod.Name, func(p *v1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), new(int64) })
					if !pass(ctx, grace) {
						return
					}
				}
				change(pod.Name, f.end)
			})
		case pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0:
			err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{})
			_ = err // it is gone
		}
	}
}

func TestJobsEndAsUpstreamEndsThem(t *testing.T) {
	t.Parallel()
	check := func(seed uint64) {
		if diff := ends(t, seed); diff != "" {
			j, p := invented(seed, 0)
			t.Errorf("seed %d, suspended %v: the end of %+v (-upstream +guest):\n%s", seed, p.suspended, j.Spec, diff)
		}
	}
	for _, seed := range []uint64{388, 740, 974, 1562} { // which end in more than one way
		check(seed)
	}
	for seed := range *states / 10 {
		check(seed)
	}
}

// ends is how the guest ends a job otherwise than upstream ever does.
func ends(t *testing.T, seed uint64) (diff string) {
	t.Helper()
	first, guest := upstreamRuns(t, seed, 0), guestRuns(t, seed, 0)
	diff = cmp.Diff(first, guest)
	if diff == "" {
		return ""
	}
	// Of two things that happen at once each sees now one first, now the other.
	theirs, ours := map[string]bool{first: true}, map[string]bool{guest: true}
	for range 50 {
		first, guest = upstreamRuns(t, seed, 0), guestRuns(t, seed, 0)
		theirs[first], ours[guest] = true, true
		if theirs[guest] || ours[first] {
			return ""
		}
	}
	// Upstream gathers changes for a second: what happens just before a suspension
	// comes after it there alone.
	const later = 5 * time.Second
	if _, p := invented(seed, 0); p.suspended && upstreamRuns(t, seed, later) == guestRuns(t, seed, later) {
		return ""
	}
	return diff
}
