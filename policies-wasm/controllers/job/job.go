package job

import (
	"errors"
	"time"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// burst is how many pods one answer creates or deletes, and how many finalizers it
// takes off: a commit of more would keep all others waiting, or be too large.
const burst = 500

// ours is the value of spec.managedBy that says nothing new.
const ours = "kubernetes.io/job-controller"

func init() {
	sdk.Controller("Job", controller{},
		reconcile.Kind{
			APIVersion: "batch/v1", Kind: "Job", Fields: []string{
				"spec.parallelism", "spec.completions", "spec.completionMode", "spec.suspend", "spec.managedBy", "spec.selector",
				"spec.backoffLimit", "spec.backoffLimitPerIndex", "spec.maxFailedIndexes", "spec.activeDeadlineSeconds",
				"spec.ttlSecondsAfterFinished", "spec.podFailurePolicy", "spec.podReplacementPolicy", "spec.successPolicy",
				"spec.template.metadata.finalizers", "spec.template.spec.restartPolicy",
				"spec.template.spec.containers", "spec.template.spec.initContainers", "status",
			},
			Writes: []string{"patch", "delete"}, Gone: true,
		},
		[]reconcile.Kind{{
			APIVersion: "v1", Kind: "Pod", Facts: append([]string{"pod.end", "pod.restarts"}, pods.Facts...),
			Writes: []string{"create", "patch", "delete"},
		}},
		sdk.Describe("Runs pods until as many have succeeded as a Job says."))
}

type controller struct{}

// job is the parent, read once, and the answer about it.
//
// It is large because each rule of Kubernetes' Jobs is a method of its own over
// what was read once.
type job struct {
	*reconcile.Request
	out reconcile.Result
	spec
	status

	pods []pod
	// running are the places in pods of those that are active.
	running                    []int
	active, ready, terminating int64
	// done and lost are how many pods have succeeded and failed, with those that
	// this answer counts.
	done, lost int64
	// finish is the condition that ends the job, nil as long as none does.
	finish *condition

	// Of an Indexed job: the indexes that have succeeded, and with a
	// backoffLimitPerIndex those that have failed, and the failed pod of each index
	// whose finalizer stays until it is replaced.
	succeededIndexes, failedIndexes intervals
	replaced                        map[int]int
}

func (controller) Reconcile(r *reconcile.Request) (reconcile.Result, error) {
	j := &job{Request: r}
	if r.Parent.ResourceVersion == "" { // it is gone
		j.letGo()
		return j.out, nil
	}
	if err := j.read(); err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case j.finished():
		if !j.elsewhere {
			j.letGo()
		}
		j.expire()
	case j.elsewhere:
		j.letGoOfOrphans()
	default:
		j.work()
	}
	return j.out, nil
}

func (j *job) read() (err error) {
	if err := j.spec.read(&j.Parent); err != nil {
		return err
	}
	j.status.read(j.Parent.Field("status"))
	if j.selector, err = facts.LabelSelector(j.Parent.Field("spec.selector"), j.Symbols); err != nil {
		return errors.New("spec.selector: " + err.Error())
	}
	if len(j.selector.Reqs) == 0 {
		j.selector.Present = false // an empty one would match all pods
	}
	return nil
}

// work counts, decides whether the job has come to its end, and keeps as many
// pods as it wants if not.
func (j *job) work() {
	j.claim()
	j.count()
	if j.startTime == "" && !j.suspended {
		j.startTime = pods.Time(j.Now)
	}
	j.judge()
	if j.indexed {
		j.countIndexes()
	}
	if j.finish != nil {
		j.stop()
	} else {
		j.manage()
	}
	j.track()
	j.writeStatus()
	j.explain()
}

// judge looks for what ends the job, but for successes.
func (j *job) judge() {
	if c := j.find(successCriteriaMet); c != nil && c.status == "True" {
		j.finish = c
		return
	}
	if c := j.find(failureTarget); c != nil && c.status == "True" {
		j.finish = j.condition(failed, c.reason, c.message)
		return
	}
	if text := j.failJob(); text != "" {
		j.finish = j.condition(failureTarget, "PodFailurePolicy", text)
		return
	}
	switch left := j.deadline(); {
	case j.lost > j.backoffLimit || j.restartedTooOften():
		j.finish = j.condition(failureTarget, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
	case left < 0:
		j.finish = j.condition(failureTarget, "DeadlineExceeded", "Job was active longer than specified deadline")
	case left > 0:
		j.again(left)
	}
}

// deadline is how long the job may go on: 0 where it has no deadline, and less
// once that has passed.
func (j *job) deadline() int64 {
	start := pods.Nanos(j.startTime)
	if j.activeDeadline < 0 || j.suspended || start == 0 {
		return 0
	}
	left := start + j.activeDeadline*pods.Second - j.Now
	if left <= 0 {
		return -1
	}
	return left
}

// restartedTooOften tells whether the containers of pods that restart them have
// failed as often as pods may.
func (j *job) restartedTooOften() bool {
	if !j.onFailure {
		return false
	}
	var sum int64
	for i := range j.pods {
		p := &j.pods[i]
		if p.phase != podRunning && p.phase != podPending {
			continue
		}
		if n, ok := j.child(p).Field("pod.restarts").Number(); ok {
			sum += int64(n)
		}
	}
	return sum > 0 && sum >= j.backoffLimit
}

// countIndexes finds the indexes that are through, and whether these end the
// job.
func (j *job) countIndexes() {
	var list []int
	for i := range j.pods {
		if p := &j.pods[i]; p.tracked && p.phase == podSucceeded && j.valid(p) {
			list = append(list, p.index)
		}
	}
	j.succeededIndexes = parseIndexes(j.completedIndexes, j.completions).with(list)
	j.done = int64(j.succeededIndexes.total())
	if j.perIndex {
		j.countFailedIndexes()
		j.keepForReplacement()
	}
	if j.finish != nil {
		return
	}
	if rule := j.met(); rule != "" {
		j.finish = j.condition(successCriteriaMet, "SuccessPolicy", "Matched rules at index "+rule)
	}
}

func (j *job) countFailedIndexes() {
	var list []int
	for i := range j.pods {
		if p := &j.pods[i]; p.tracked && j.valid(p) && j.indexFailed(p) {
			list = append(list, p.index)
		}
	}
	j.failedIndexes = parseIndexes(j.status.failedIndexes, j.completions).with(list)
	total := j.failedIndexes.total()
	switch {
	case j.finish != nil:
	case j.maxFailedIndexes >= 0 && int64(total) > j.maxFailedIndexes:
		j.finish = j.condition(failureTarget, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
	case total > 0 && total+j.succeededIndexes.total() >= j.completions:
		j.finish = j.condition(failureTarget, "FailedIndexes", "Job has failed indexes")
	}
}

// again asks to be asked in so many nanoseconds, or earlier.
func (j *job) again(in int64) {
	if after := time.Duration(in); after > 0 && (j.out.RequeueAfter == 0 || after < j.out.RequeueAfter) {
		j.out.RequeueAfter = after
	}
}

func (j *job) event(kind, reason, message string) {
	j.out.Events = append(j.out.Events, reconcile.Event{Type: kind, Reason: reason, Message: message})
}

// expire deletes a finished job whose time is over.
func (j *job) expire() {
	if j.ttl < 0 || j.Parent.Deleted != 0 {
		return
	}
	end := int64(0)
	for i := range j.conditions {
		if c := &j.conditions[i]; c.ends() {
			end = pods.Nanos(c.since)
			break
		}
	}
	left := end + j.ttl*pods.Second - j.Now
	switch {
	case end == 0:
	case left > 0:
		j.again(left)
	default:
		j.out.Delete = append(j.out.Delete, reconcile.Deletion{UID: j.Parent.UID, Propagation: "Foreground", Quiet: true})
	}
}
