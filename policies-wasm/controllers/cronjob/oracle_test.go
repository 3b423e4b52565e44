package cronjob

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	upstream "k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

// More are compared with `go test -run Upstream -plays 3000`.
var plays = flag.Uint64("plays", controllertest.Rounds(50, 3_000), "how many invented plays, of six rests each, are compared with upstream")

// side is one of the two clusters that a play is played in.
type side interface {
	cronJob(change func(*batchv1.CronJob))
	job(name string, change func(*batchv1.Job))
	add(j *batchv1.Job)
	remove(name string)
	state() state
}

// state is what users see when all has come to rest, and what they were told
// since the play began.
type state struct {
	Jobs, Active, Events []string
	Last, Successful     string
}

func (s *state) of(cj *batchv1.CronJob, jobs []*batchv1.Job) {
	all := slices.Clone(s.Events)
	s.Events = slices.DeleteFunc(s.Events, func(e string) bool {
		// Upstream may wonder at what it deleted itself, when one informer is
		// ahead of the other.
		at := strings.LastIndex(e, " ") + 1
		return (strings.Contains(e, " MissingJob: ") || strings.Contains(e, " UnexpectedJob: ")) &&
			slices.Contains(all, "Normal SuccessfulDelete: Deleted job "+e[at:])
	})
	names := map[types.UID]string{}
	for _, j := range jobs {
		names[j.UID] = j.Name
		s.Jobs = append(s.Jobs, strings.Join([]string{j.Name, j.Annotations[scheduledKey], fmt.Sprint(j.Labels), fmt.Sprint(len(j.Spec.Template.Spec.Containers))}, " "))
	}
	for _, a := range cj.Status.Active {
		s.Active = append(s.Active, fmt.Sprint(a.Kind, a.APIVersion, a.Namespace, a.Name, names[a.UID] == a.Name))
	}
	show := func(t *metav1.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	s.Last, s.Successful = show(cj.Status.LastScheduleTime), show(cj.Status.LastSuccessfulTime)
	for _, list := range []*[]string{&s.Jobs, &s.Active, &s.Events} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
}

// theirs is upstream's controller with the clients of its own tests.
type theirs struct {
	t      *testing.T
	client *fake.Clientset
	mu     sync.Mutex
	events []string
	made   int
}

func newTheirs(ctx context.Context, t *testing.T, cj *batchv1.CronJob, jobs []*batchv1.Job) *theirs {
	t.Helper()
	objects := []runtime.Object{cj.DeepCopy()}
	for _, j := range jobs {
		objects = append(objects, j.DeepCopy())
	}
	u := &theirs{t: t, client: controllertest.Clientset(objects...)}
	u.client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		switch o := action.(clienttesting.CreateAction).GetObject().(type) {
		case *batchv1.Job: // as the API server does
			u.made++
			o.UID = types.UID(fmt.Sprint("theirs-", u.made))
		case *v1.Event:
			if !strings.HasSuffix(o.Message, "not found") { // said of what its informer shows too late
				u.events = append(u.events, fmt.Sprintf("%s %s: %s", o.Type, o.Reason, o.Message))
			}
		}
		return false, nil, nil
	})
	u.client.PrependReactor("update", "cronjobs", u.unlessStale)
	factory := informers.NewSharedInformerFactory(u.client, 0)
	c, err := upstream.NewControllerV2(ctx, factory.Batch().V1().Jobs(), factory.Batch().V1().CronJobs(), u.client)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go c.Run(ctx, 1)
	return u
}

// unlessStale refuses updates of an older state, as the API server does.
func (u *theirs) unlessStale(action clienttesting.Action) (bool, runtime.Object, error) {
	next := action.(clienttesting.UpdateAction).GetObject().(*batchv1.CronJob)
	have, err := u.client.Tracker().Get(action.GetResource(), next.Namespace, next.Name)
	if err != nil {
		return true, nil, err
	}
	if have.(*batchv1.CronJob).ResourceVersion != next.ResourceVersion {
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), next.Name, errors.New("it was changed"))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.made++
	next.ResourceVersion = fmt.Sprint(u.made)
	return false, nil, nil
}

func (u *theirs) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

func (u *theirs) cronJob(change func(*batchv1.CronJob)) {
	api := u.client.BatchV1().CronJobs("default")
	cj, err := api.Get(u.t.Context(), "report", metav1.GetOptions{})
	u.must(err)
	change(cj)
	_, err = api.Update(u.t.Context(), cj, metav1.UpdateOptions{})
	u.must(err)
}

func (u *theirs) job(name string, change func(*batchv1.Job)) {
	api := u.client.BatchV1().Jobs("default")
	j, err := api.Get(u.t.Context(), name, metav1.GetOptions{})
	u.must(err)
	j.ResourceVersion += "1" // the handlers look whether it changed
	change(j)
	_, err = api.Update(u.t.Context(), j, metav1.UpdateOptions{})
	u.must(err)
}

func (u *theirs) add(j *batchv1.Job) {
	u.must(u.client.Tracker().Create(batchv1.SchemeGroupVersion.WithResource("jobs"), j.DeepCopy(), "default"))
}

func (u *theirs) remove(name string) {
	u.must(u.client.Tracker().Delete(batchv1.SchemeGroupVersion.WithResource("jobs"), "default", name))
}

func (u *theirs) state() (s state) {
	cj, err := u.client.BatchV1().CronJobs("default").Get(u.t.Context(), "report", metav1.GetOptions{})
	u.must(err)
	list, err := u.client.BatchV1().Jobs("default").List(u.t.Context(), metav1.ListOptions{})
	u.must(err)
	var jobs []*batchv1.Job
	for i := range list.Items {
		jobs = append(jobs, &list.Items[i])
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s.Events = slices.Clone(u.events)
	s.of(cj, jobs)
	return s
}

// ours is the guest in a cluster of Berth.
type ours struct {
	*controllertest.World
	told *[]string
}

func newOurs(w *controllertest.World, cj *batchv1.CronJob, jobs []*batchv1.Job) ours {
	o := ours{w, new([]string)}
	for _, j := range jobs {
		o.add(j)
	}
	o.put(cronJobs, cj)
	return o
}

func (o ours) put(resource string, object store.Object) {
	o.T.Helper()
	op := store.Op{Kind: store.Create, Key: store.Key{Resource: resource, Namespace: "default", Name: object.GetName()}, Object: object.DeepCopyObject().(store.Object)}
	if _, _, err := o.Store.Commit(o.T.Context(), op); err != nil {
		o.T.Fatal(err)
	}
}

func alter[T store.Object](o ours, resource, name string, change func(T)) {
	o.T.Helper()
	_, err := o.Store.Update(o.T.Context(), store.Key{Resource: resource, Namespace: "default", Name: name}, func(old store.Object) (store.Object, error) {
		next := old.DeepCopyObject().(T)
		change(next)
		next.SetGeneration(next.GetGeneration() + 1)
		return next, nil
	})
	if err != nil {
		o.T.Fatal(err)
	}
}

func (o ours) cronJob(f func(*batchv1.CronJob))      { alter(o, cronJobs, "report", f) }
func (o ours) job(name string, f func(*batchv1.Job)) { alter(o, jobs, name, f) }
func (o ours) add(j *batchv1.Job)                    { o.put(jobs, j) }
func (o ours) remove(name string) {
	o.Delete(jobs, name, &metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
}
func (o ours) state() (s state) {
	for _, e := range o.Events() {
		*o.told = append(*o.told, strings.TrimPrefix(e, "report "))
	}
	s.Events = slices.Clone(*o.told)
	s.of(controllertest.Get[*batchv1.CronJob](o.World, cronJobs, "report"), controllertest.List[*batchv1.Job](o.World, jobs))
	return s
}

// owned is a Job that the CronJob controls.
func owned(name string, created time.Time) *batchv1.Job {
	template := nightly("").Spec.JobTemplate
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name), Labels: template.Labels, CreationTimestamp: metav1.NewTime(created),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "report", UID: "cj"}, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
		},
		Spec: template.Spec,
	}
}

// invent makes up a CronJob with a past.
func invent(r *rand.Rand, now time.Time) (cj *batchv1.CronJob, jobs []*batchv1.Job) {
	one := func(n int) bool { return r.IntN(n) == 0 }
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	cj = nightly(pick(
		"* * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *", "15,45 */2 * * *", "0 1-3 * * *", "@hourly", "@every 10m", "@every 95s", "*/20 0-3 * * 0,6", "0 0 31 2 *",
		"* * * 12 *", "0-1 3 * * *",
	), policy([]batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent}[r.IntN(3)]))
	cj.UID, cj.Generation = "cj", 1
	created := now.Add(-time.Duration(r.IntN(6*3600)) * time.Second).Truncate(time.Second)
	if one(5) {
		created = now.AddDate(0, 0, -r.IntN(60)).Truncate(time.Second)
	}
	cj.CreationTimestamp = metav1.NewTime(created)
	if !one(3) {
		in(zones[r.IntN(len(zones))])(cj)
	}
	if one(30) {
		in("Mars/Olympus")(cj)
	}
	if one(20) {
		cj.Spec.Schedule, cj.Spec.TimeZone = "TZ="+zones[r.IntN(len(zones))]+" "+cj.Spec.Schedule, nil
	}
	if one(3) {
		deadline(r.Int64N(4000))(cj)
	}
	if one(2) {
		keep(r.Int32N(3), r.Int32N(3))(cj)
	}
	if one(10) {
		suspended(cj)
	}
	if one(2) {
		cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(created.Add(time.Duration(r.Int64N(int64(now.Sub(created)) + 1))).Truncate(time.Minute)))
	}
	for i := range r.IntN(4) {
		began := created.Add(time.Duration(r.Int64N(int64(now.Sub(created)) + 1)))
		j := owned(fmt.Sprintf("report-%d", i), began)
		if !one(4) {
			j.Status.StartTime = ptr.To(metav1.NewTime(began.Truncate(time.Second)))
		}
		if one(2) {
			endedAt([]batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}[r.IntN(2)], now.Add(-time.Duration(r.IntN(600))*time.Second).Truncate(time.Second))(j)
		}
		if !one(3) {
			cj.Status.Active = append(cj.Status.Active, v1.ObjectReference{Kind: "Job", APIVersion: "batch/v1", Namespace: "default", Name: j.Name, UID: j.UID})
		}
		if !one(6) {
			jobs = append(jobs, j)
		}
	}
	return cj, jobs
}

// happens lets something happen to both sides.
func happens(r *rand.Rand, n int, both []side, jobs []string) string {
	each := func(f func(s side)) {
		for _, s := range both {
			f(s)
		}
	}
	now := time.Now().Truncate(time.Second)
	if len(jobs) > 0 && r.IntN(2) == 0 {
		name, _, _ := strings.Cut(jobs[r.IntN(len(jobs))], " ")
		if r.IntN(4) == 0 {
			each(func(s side) { s.remove(name) })
			return "removed " + name
		}
		how := []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}[r.IntN(2)]
		each(func(s side) {
			s.job(name, func(j *batchv1.Job) {
				if len(j.Status.Conditions) == 0 {
					endedAt(how, now)(j)
				}
			})
		})
		return "ended " + name
	}
	switch r.IntN(5) {
	case 0:
		each(func(s side) {
			s.cronJob(func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(!ptr.Deref(cj.Spec.Suspend, false)) })
		})
		return "suspended or resumed"
	case 1:
		seconds := r.Int64N(4000)
		each(func(s side) { s.cronJob(deadline(seconds)) })
		return fmt.Sprint("gave a deadline of ", seconds)
	case 2:
		successful, failed := r.Int32N(3), r.Int32N(3)
		each(func(s side) { s.cronJob(keep(successful, failed)) })
		return fmt.Sprint("keep ", successful, failed)
	case 3:
		j := owned(fmt.Sprintf("manual-%d", n), now)
		each(func(s side) { s.add(j) })
		return "added " + j.Name
	}
	return "nothing happened"
}

// Upstream's errors would wait for each other, across bubbles.
func init() { utilruntime.ErrorHandlers = nil }

// quiet keeps upstream's log out of the tests'.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// TestTheGuestDoesWhatUpstreamDoes plays the same in both clusters, at the same
// time, and compares them whenever they have come to rest.
func TestTheGuestDoesWhatUpstreamDoes(t *testing.T) {
	t.Parallel()
	for seed := range *plays {
		compare(t, seed)
		if t.Failed() {
			return
		}
	}
}

// few events reach the API from upstream as they are; of more it makes less.
const few = 9

// told is how many events reached the API, with those that it had before.
func (u *theirs) told() (n int) {
	for _, a := range u.client.Actions() {
		if a.GetResource().Resource == "events" {
			n++
		}
	}
	return n
}

// behind tells whether upstream may say so of a Job that it has deleted itself: that it
// has ended, while both informers are behind.
func behind(event string, all []string) bool {
	name, saw := strings.CutPrefix(event, "Normal SawCompletedJob: Saw completed job: ")
	name, _, _ = strings.Cut(name, ",")
	return saw && slices.Contains(all, "Normal SuccessfulDelete: Deleted job "+name)
}

func compare(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	from := time.Date(2026, time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000)*1e6, time.Local)
	if r.IntN(2) == 0 { // about when clocks change in Europe
		from = time.Date(2026, []time.Month{time.March, time.October}[r.IntN(2)], 25, 21, r.IntN(60), r.IntN(60), 0, time.Local)
	}
	controllertest.PlayFrom(t, from, []string{"CronJob"}, func(w *controllertest.World) {
		cj, jobs := invent(r, from)
		ctx, stop := context.WithCancel(quiet(w.T.Context()))
		defer w.Wait(0)
		defer stop()
		theirs := newTheirs(ctx, w.T, cj, jobs)
		both := []side{theirs, newOurs(w, cj, jobs)}
		story := []string{fmt.Sprintf("%s: %+v %+v", from, cj.Spec, cj.Status)}
		for step := range 6 {
			w.Wait(time.Duration(r.IntN(2500)) * time.Millisecond * time.Duration(1+r.IntN(2000)))
			want, got := both[0].state(), both[1].state()
			if len(want.Events) > few || len(got.Events) > few || theirs.told() > 2*few {
				want.Events, got.Events = nil, nil
			}
			want.Events = slices.DeleteFunc(want.Events, func(e string) bool { return behind(e, want.Events) && !slices.Contains(got.Events, e) })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d, at %s (-upstream +guest):\n%s\n%s", seed, time.Now(), diff, strings.Join(story, "\n"))
				return
			}
			story = append(story, time.Now().String()+": "+happens(r, step, both, got.Jobs))
		}
	})
}
