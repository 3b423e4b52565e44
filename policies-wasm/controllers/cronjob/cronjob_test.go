package cronjob

import (
	"encoding/json"
	"fmt"
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

const cronJobs, jobs = "cronjobs.batch", "jobs.batch"

// nightly is a CronJob of a schedule.
func nightly(schedule string, say ...func(*batchv1.CronJob)) *batchv1.CronJob {
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "report", Namespace: "default"},
		Spec: batchv1.CronJobSpec{
			Schedule: schedule, ConcurrencyPolicy: batchv1.AllowConcurrent,
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "report"}, Annotations: map[string]string{"note": "n"}},
				Spec: batchv1.JobSpec{Template: v1.PodTemplateSpec{Spec: v1.PodSpec{
					RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "c", Image: "i:1"}},
				}}},
			},
		},
	}
	for _, s := range say {
		s(cj)
	}
	return cj
}

func policy(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = p }
}

func in(zone string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.TimeZone = &zone }
}

func keep(successful, failed int32) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = &successful, &failed
	}
}

func deadline(seconds int64) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = &seconds }
}

func suspended(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) }

// play plays a CronJob from a time on.
func play(t *testing.T, from string, test func(w *controllertest.World)) {
	t.Helper()
	controllertest.PlayFrom(t, moment(from), []string{"CronJob"}, test)
}

func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at
}

func until(w *controllertest.World, when string) {
	w.Wait(time.Until(moment(when)))
}

// names are those of all Jobs.
func names(w *controllertest.World) (names []string) {
	for _, j := range controllertest.List[*batchv1.Job](w, jobs) {
		names = append(names, j.Name)
	}
	return names
}

// at is the name of the Job that is due then.
func at(when string) string { return fmt.Sprintf("report-%d", moment(when).Unix()/60) }

func status(w *controllertest.World) batchv1.CronJobStatus {
	return controllertest.Get[*batchv1.CronJob](w, cronJobs, "report").Status
}

// end lets a Job end with a condition.
func end(w *controllertest.World, name string, how batchv1.JobConditionType) {
	w.T.Helper()
	controllertest.Change(w, jobs, "status", name, func(j *batchv1.Job) { endedAt(how, time.Now())(j) })
	w.Wait(time.Second)
}

func endedAt(how batchv1.JobConditionType, when time.Time) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		now := metav1.NewTime(when)
		if j.Status.StartTime == nil {
			j.Status.StartTime = &now
		}
		criteria := batchv1.JobSuccessCriteriaMet
		if how == batchv1.JobComplete {
			j.Status.CompletionTime = &now
		} else {
			criteria = batchv1.JobFailureTarget
		}
		for _, kind := range []batchv1.JobConditionType{criteria, how} {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: now})
		}
	}
}

func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAJobStartsWhenItIsDue(t *testing.T) {
	t.Parallel()
	play(t, "2026-03-01T09:59:30Z", func(w *controllertest.World) {
		w.Create(cronJobs, nightly("0 * * * *", func(cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Finalizers = []string{"x/y"}
		}))
		w.Wait(29 * time.Second)
		want(t, "jobs before", []string(nil), names(w))
		w.Wait(2 * time.Second)
		first := at("2026-03-01T10:00:00Z")
		want(t, "jobs", []string{first}, names(w))
		j := controllertest.Get[*batchv1.Job](w, jobs, first)
		want(t, "annotations", map[string]string{"note": "n", scheduledKey: "2026-03-01T10:00:00Z"}, j.Annotations)
		want(t, "image", "i:1", j.Spec.Template.Spec.Containers[0].Image)
		want(t, "finalizers", 0, len(j.Finalizers))
		s := status(w)
		want(t, "active", []v1.ObjectReference{{
			Kind: "Job", APIVersion: "batch/v1", Namespace: "default", Name: first, UID: j.UID, ResourceVersion: j.ResourceVersion,
		}}, s.Active)
		want(t, "last", "2026-03-01T10:00:00Z", s.LastScheduleTime.UTC().Format(time.RFC3339))
		want(t, "events", []string{"report Normal SuccessfulCreate: Created job " + first}, w.Events())
		until(w, "2026-03-01T10:20:00Z")
		end(w, first, batchv1.JobComplete)
		want(t, "active", 0, len(status(w).Active))
		want(t, "last successful", "2026-03-01T10:20:00Z", status(w).LastSuccessfulTime.UTC().Format(time.RFC3339))
		want(t, "events", []string{"report Normal SawCompletedJob: Saw completed job: " + first + ", condition: Complete"}, w.Events())
		until(w, "2026-03-01T13:30:00Z")
		want(t, "jobs", []string{first, at("2026-03-01T11:00:00Z"), at("2026-03-01T12:00:00Z"), at("2026-03-01T13:00:00Z")}, names(w))
	})
}

func TestConcurrencyPolicies(t *testing.T) {
	t.Parallel()
	first, second := at("2026-03-01T10:00:00Z"), at("2026-03-01T11:00:00Z")
	tests := []struct {
		name         string
		policy       batchv1.ConcurrencyPolicy
		jobs, events []string
	}{
		{"both run", batchv1.AllowConcurrent, []string{first, second}, []string{"Normal SuccessfulCreate: Created job " + second}},
		{"the second does not start", batchv1.ForbidConcurrent, []string{first}, []string{"Normal JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid"}},
		{"the second replaces the first", batchv1.ReplaceConcurrent, []string{second}, []string{
			"Normal SuccessfulDelete: Deleted job " + first, "Normal SuccessfulCreate: Created job " + second,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play(t, "2026-03-01T09:30:00Z", func(w *controllertest.World) {
				w.Create(cronJobs, nightly("0 * * * *", policy(tt.policy)))
				until(w, "2026-03-01T10:30:00Z")
				w.Events()
				until(w, "2026-03-01T11:30:00Z")
				want(t, "jobs", tt.jobs, names(w))
				var events []string
				for _, e := range w.Events() {
					events = append(events, strings.TrimPrefix(e, "report "))
				}
				want(t, "events", tt.events, events)
				var active []string
				for _, a := range status(w).Active {
					active = append(active, a.Name)
				}
				want(t, "active", tt.jobs, active)
				if tt.policy == batchv1.ForbidConcurrent { // it starts late, as soon as it may
					end(w, first, batchv1.JobFailed)
					want(t, "jobs at last", []string{first, second}, names(w))
				}
			})
		})
	}
}

func TestHistoryIsLimited(t *testing.T) {
	t.Parallel()
	play(t, "2026-03-01T09:59:30Z", func(w *controllertest.World) {
		w.Create(cronJobs, nightly("* * * * *", keep(2, 1)))
		var good, bad []string
		for i := range 6 {
			w.Wait(time.Minute)
			all := names(w)
			last := all[len(all)-1]
			if i%2 == 0 {
				good = append(good, last)
				end(w, last, batchv1.JobComplete)
			} else {
				bad = append(bad, last)
				end(w, last, batchv1.JobFailed)
			}
		}
		left := append(slices.Clone(good[1:]), bad[2:]...)
		slices.Sort(left)
		got := names(w)
		slices.Sort(got)
		want(t, "jobs", left, got)
		if events := w.Events(); !slices.Contains(events, "report Normal SuccessfulDelete: Deleted job "+bad[0]) {
			t.Errorf("events are %q", events)
		}
	})
}

func TestWhatIsMissed(t *testing.T) {
	t.Parallel()
	tooMany := "report Warning TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
	tests := []struct {
		name     string
		schedule string
		say      func(*batchv1.CronJob)
		resumed  string
		jobs     []string
		events   []string
	}{
		{"the last of few is made up for", "0 * * * *", nil, "2026-03-01T14:30:00Z", []string{at("2026-03-01T14:00:00Z")}, nil},
		{"the last of many is made up for, with a warning", "* * * * *", nil, "2026-03-01T14:30:30Z", []string{at("2026-03-01T14:30:00Z")}, []string{tooMany}},
		{"one within its deadline is", "0 * * * *", deadline(1801), "2026-03-01T14:30:00Z", []string{at("2026-03-01T14:00:00Z")}, nil},
		{"one beyond is not", "0 * * * *", deadline(1799), "2026-03-01T14:30:00Z", nil, nil},
		{"a deadline bounds what was missed", "* * * * *", deadline(60), "2026-03-01T14:30:30Z", []string{at("2026-03-01T14:30:00Z")}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play(t, "2026-03-01T09:30:00Z", func(w *controllertest.World) {
				cj := nightly(tt.schedule, suspended)
				if tt.say != nil {
					tt.say(cj)
				}
				w.Create(cronJobs, cj)
				until(w, tt.resumed)
				want(t, "jobs while it is suspended", []string(nil), names(w))
				controllertest.Change(w, cronJobs, "", "report", func(cj *batchv1.CronJob) { cj.Spec.Suspend = nil })
				w.Wait(time.Second)
				want(t, "jobs", tt.jobs, names(w))
				events := slices.DeleteFunc(w.Events(), func(e string) bool { return strings.Contains(e, "SuccessfulCreate") })
				want(t, "events", append([]string(nil), tt.events...), append([]string(nil), events...))
			})
		})
	}
}

// TestDaysOnWhichClocksChange are as those of upstream's schedules.
func TestDaysOnWhichClocksChange(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, schedule, from, to string
		jobs                     []string
		stamp                    string
	}{
		{
			"what falls into the hour that is left out does not run", "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z",
			[]string{at("2026-03-30T00:30:00Z")}, "2026-03-30T02:30:00+02:00",
		},
		{
			"each hour of a shorter day runs", "0 * * * *", "2026-03-28T23:30:00Z", "2026-03-29T02:30:00Z",
			[]string{at("2026-03-29T00:00:00Z"), at("2026-03-29T01:00:00Z"), at("2026-03-29T02:00:00Z")}, "2026-03-29T01:00:00+01:00",
		},
		{
			"what falls into the hour that comes twice runs twice", "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z",
			[]string{at("2026-10-25T00:30:00Z"), at("2026-10-25T01:30:00Z")}, "2026-10-25T02:30:00+02:00",
		},
		{
			"noon stays noon", "0 12 * * *", "2026-03-27T22:00:00Z", "2026-03-29T22:00:00Z",
			[]string{at("2026-03-28T11:00:00Z"), at("2026-03-29T10:00:00Z")}, "2026-03-28T12:00:00+01:00",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play(t, tt.from, func(w *controllertest.World) {
				w.Create(cronJobs, nightly(tt.schedule, in("Europe/Berlin")))
				until(w, tt.to)
				want(t, "jobs", tt.jobs, names(w))
				if first := controllertest.Get[*batchv1.Job](w, jobs, tt.jobs[0]); first != nil {
					want(t, "annotation", tt.stamp, first.Annotations[scheduledKey])
				}
			})
		})
	}
}

// answer is what the guest says, in words.
type answer struct {
	Events, Creates, Deletes []string
	Status                   string
	Again                    time.Duration
}

// ask asks once about a CronJob and its Jobs. What is stored already may be what
// validation would refuse today.
func ask(t *testing.T, now time.Time, cj *batchv1.CronJob, of ...*batchv1.Job) (a answer) {
	t.Helper()
	var others []store.Object
	names := map[string]string{}
	for _, j := range of {
		others, names[string(j.UID)] = append(others, j), j.Name
	}
	out := controllertest.Ask(t, "CronJob", now, cj, others...)
	for _, c := range out.Create {
		var object struct{ Metadata metav1.ObjectMeta }
		if err := json.Unmarshal(c.Object, &object); err != nil {
			t.Fatal(err)
		}
		a.Creates = append(a.Creates, object.Metadata.Name+" "+object.Metadata.Annotations[scheduledKey])
	}
	for _, d := range out.Delete {
		a.Deletes = append(a.Deletes, names[d.UID])
	}
	for _, e := range out.Events {
		a.Events = append(a.Events, e.Type+" "+e.Reason+" "+e.Message)
	}
	a.Status, a.Again = string(out.Status), time.Duration(out.RequeueAfterNanos)
	return a
}

func TestWhatASingleQuestionGets(t *testing.T) {
	t.Parallel()
	unsupported := func(schedule string) string {
		return fmt.Sprintf("Warning UnsupportedSchedule CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", schedule)
	}
	now := time.Date(2026, 7, 1, 10, 30, 0, 0, time.UTC)
	job := func(name string, say ...func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "report", UID: "cj", Controller: ptr.To(true)}},
		}}
		for _, s := range say {
			s(j)
		}
		return j
	}
	active := func(name string) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) {
			cj.Status.Active = append(cj.Status.Active, v1.ObjectReference{Kind: "Job", Namespace: "default", Name: name, UID: types.UID("uid-" + name)})
		}
	}
	last := func(ago time.Duration) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(now.Add(-ago))) }
	}
	going := func(cj *batchv1.CronJob) {
		at := metav1.Now()
		cj.DeletionTimestamp, cj.Finalizers = &at, []string{"x/y"}
	}
	tests := []struct {
		name            string
		cj              *batchv1.CronJob
		jobs            []*batchv1.Job
		events, creates []string
		status          string
		again           time.Duration
	}{
		{name: "nothing is due", cj: nightly("0 * * * *"), again: 30*time.Minute + late},
		{name: "the schedule's own zone", cj: nightly("TZ=Asia/Kolkata 0 * * * *"), events: []string{unsupported("TZ=Asia/Kolkata 0 * * * *")}, again: time.Hour + late, creates: []string{"report-29715030 2026-07-01T10:30:00Z"}},
		{name: "a zone that nobody knows", cj: nightly("0 * * * *", in("Mars/Olympus")), events: []string{`Warning UnknownTimeZone invalid timeZone: "Mars/Olympus": unknown time zone Mars/Olympus`}},
		{name: "one that nobody knows in the schedule", cj: nightly("TZ=Mars/Olympus 0 * * * *"), events: []string{
			unsupported("TZ=Mars/Olympus 0 * * * *"), `Warning UnparseableSchedule unparseable schedule: "TZ=Mars/Olympus 0 * * * *" : provided bad location Mars/Olympus: unknown time zone Mars/Olympus`,
		}},
		{name: "only a zone", cj: nightly("TZ=UTC"), events: []string{unsupported("TZ=UTC"), `Warning UnparseableSchedule unparseable schedule: "TZ=UTC" : nothing follows its time zone`}},
		{name: "no schedule", cj: nightly("often"), events: []string{`Warning UnparseableSchedule unparseable schedule: "often" : want 5 fields, found 1`}},
		{name: "a day that never comes", cj: nightly("59 23 31 2 *"), events: []string{"Warning InvalidSchedule invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second"}},
		{name: "suspended", cj: nightly("* * * * *", suspended)},
		{name: "about to go, it only keeps its status", cj: nightly("* * * * *", going, active("gone")), events: []string{"Normal MissingJob Active job went missing: gone"}, status: "{}"},
		{
			name: "an active job that is gone", cj: nightly("0 * * * *", active("gone")),
			events: []string{"Normal MissingJob Active job went missing: gone"}, status: "{}", again: 30*time.Minute + late,
		},
		{
			name: "a job that somebody else made of it", cj: nightly("0 * * * *"), jobs: []*batchv1.Job{job("manual")},
			events: []string{"Warning UnexpectedJob Saw a job that the controller did not create or forgot: manual"}, again: 30*time.Minute + late,
		},
		{
			name: "one that failed", cj: nightly("0 * * * *", active("a")), jobs: []*batchv1.Job{job("a", endedAt(batchv1.JobFailed, now))},
			events: []string{"Normal SawCompletedJob Saw completed job: a, condition: Failed"}, status: "{}", again: 30*time.Minute + late,
		},
		{
			name: "what the last answer made", cj: nightly("*/30 * * * *"), again: 30*time.Minute + late,
			jobs: []*batchv1.Job{job("report-29715030", func(j *batchv1.Job) { j.Annotations = map[string]string{scheduledKey: "2026-07-01T12:30:00+02:00"} })},
			status: `{"active":[{"kind":"Job","namespace":"default","name":"report-29715030","uid":"uid-report-29715030",` +
				`"apiVersion":"batch/v1","resourceVersion":"3"}],"lastScheduleTime":"2026-07-01T10:30:00Z"}`,
		},
		{
			name: "two times of a minute share a job", cj: nightly("@every 30s", last(30*time.Second), active("report-29715029")), again: 30*time.Second + late,
			jobs: []*batchv1.Job{job("report-29715029"), job("report-29715030", endedAt(batchv1.JobComplete, now.Add(-time.Minute)))},
			status: `{"active":[{"kind":"Job","namespace":"default","name":"report-29715029","uid":"uid-report-29715029"},` +
				`{"kind":"Job","namespace":"default","name":"report-29715030","uid":"uid-report-29715030","apiVersion":"batch/v1","resourceVersion":"4"}],` +
				`"lastScheduleTime":"2026-07-01T10:30:00Z","lastSuccessfulTime":"2026-07-01T10:29:00Z"}`,
		},
		{name: "every day at noon, and it is past", cj: nightly("0 12 * * *", in("Europe/Berlin")), again: 23*time.Hour + 30*time.Minute + late},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.cj.UID, tt.cj.CreationTimestamp = "cj", metav1.NewTime(now.Add(-10*time.Minute))
			want(t, "answer", answer{Events: tt.events, Creates: tt.creates, Status: tt.status, Again: tt.again}, ask(t, now, tt.cj, tt.jobs...))
		})
	}
}
