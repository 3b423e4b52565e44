package job

import (
	"strconv"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
)

// Conditions of a Job.
const (
	suspended          = "Suspended"
	failureTarget      = "FailureTarget"
	failed             = "Failed"
	successCriteriaMet = "SuccessCriteriaMet"
	complete           = "Complete"
)

// status is the parent's, as it was and then as it is to be.
type status struct {
	conditions                []condition
	startTime, completionTime string
	succeeded, failed         int64
	completedIndexes          string
	failedIndexes             string
	hasFailedIndexes          bool
	uncounted                 uncounted
	// pausing is for how long no failed pod is replaced.
	pausing int64
}

type condition struct{ kind, status, reason, message, since, probed string }

// ends tells whether the job is over.
func (c *condition) ends() bool {
	return (c.kind == complete || c.kind == failed) && c.status == "True"
}

// uncounted are UIDs of pods that have ended and are in no number yet.
type uncounted struct{ succeeded, failed map[string]bool }

// move takes a UID over from another list.
func (u *uncounted) move(from *uncounted, uid string) {
	if from.succeeded[uid] {
		u.succeeded = with(u.succeeded, uid)
		delete(from.succeeded, uid)
	}
	if from.failed[uid] {
		u.failed = with(u.failed, uid)
		delete(from.failed, uid)
	}
}

func with(set map[string]bool, uid string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[uid] = true
	return set
}

func (s *status) read(c sdk.Config) {
	list, _ := c.List("conditions")
	for _, item := range list {
		s.conditions = append(s.conditions, condition{
			kind: item.String("type", ""), status: item.String("status", ""), reason: item.String("reason", ""),
			message: item.String("message", ""), since: item.String("lastTransitionTime", ""), probed: item.String("lastProbeTime", ""),
		})
	}
	s.startTime, s.completionTime = c.String("startTime", ""), c.String("completionTime", "")
	number := func(key string) int64 {
		n, _ := c.Object(key).Number()
		return int64(n)
	}
	s.succeeded, s.failed = number("succeeded"), number("failed")
	s.completedIndexes, s.failedIndexes = c.String("completedIndexes", ""), c.String("failedIndexes", "")
	uids := c.Object("uncountedTerminatedPods")
	s.uncounted.succeeded, s.uncounted.failed = uidsOf(uids, "succeeded"), uidsOf(uids, "failed")
}

func uidsOf(c sdk.Config, key string) (set map[string]bool) {
	list, _ := c.List(key)
	for _, item := range list {
		text, _ := item.Text()
		set = with(set, text)
	}
	return set
}

func (s *status) find(kind string) *condition {
	for i := range s.conditions {
		if s.conditions[i].kind == kind {
			return &s.conditions[i]
		}
	}
	return nil
}

func (s *status) finished() bool {
	for i := range s.conditions {
		if s.conditions[i].ends() {
			return true
		}
	}
	return false
}

func (s *status) add(c condition) { s.conditions = append(s.conditions, c) }

// condition is one that is true since now.
func (j *job) condition(kind, reason, message string) *condition {
	now := pods.Time(j.Now)
	return &condition{kind, "True", reason, message, now, now}
}

// ensure sets a condition, and tells whether that changed it. One that is not
// there is not set to False.
func (j *job) ensure(kind, status, reason, message string) (changed bool) {
	have := j.find(kind)
	switch {
	case have == nil && status == "False":
		return false
	case have != nil && have.status == status && have.reason == reason && have.message == message:
		return false
	}
	c := *j.condition(kind, reason, message)
	c.status = status
	if have == nil {
		j.add(c)
	} else {
		*have = c
	}
	return true
}

func (j *job) writeStatus() {
	w := &json.Writer{}
	w.Open('{').Key("conditions").Open('[')
	for i := range j.conditions {
		c := &j.conditions[i]
		w.Open('{').Key("type").Text(c.kind).Key("status").Text(c.status)
		w.Member("lastProbeTime", c.probed).Member("lastTransitionTime", c.since)
		w.Member("reason", c.reason).Member("message", c.message).Close('}')
	}
	w.Close(']').Member("startTime", j.startTime).Member("completionTime", j.completionTime)
	w.Key("active").Int(j.active).Key("succeeded").Int(j.status.succeeded).Key("failed").Int(j.status.failed)
	w.Key("ready").Int(j.ready).Key("terminating").Int(j.terminating)
	w.Member("completedIndexes", j.completedIndexes)
	if j.hasFailedIndexes {
		w.Key("failedIndexes").Text(j.status.failedIndexes)
	}
	w.Key("uncountedTerminatedPods").Open('{')
	// In the order of the pods, so that the same answer is the same text.
	writeUIDs(w, "succeeded", j.uncounted.succeeded, j)
	writeUIDs(w, "failed", j.uncounted.failed, j)
	j.out.Status = string(w.Close('}').Close('}').Bytes())
}

func writeUIDs(w *json.Writer, key string, set map[string]bool, j *job) {
	if len(set) == 0 {
		return
	}
	w.Key(key).Open('[')
	for i := range j.pods {
		if uid := j.child(&j.pods[i]).UID; set[uid] {
			w.Text(uid)
		}
	}
	w.Close(']')
}

// some is so many of a thing.
func some(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.FormatInt(n, 10) + " " + what
}

// explain says in a sentence what the job waits for.
func (j *job) explain() {
	why := some(j.done, "pod") + " succeeded"
	if !j.queue {
		why = strconv.FormatInt(j.done, 10) + " of " + strconv.Itoa(j.completions) + " completions are reached"
	}
	switch {
	case j.finished():
		return
	case j.finish != nil:
		why = "it has come to its end (" + j.finish.reason + ") and waits for " + some(j.terminating, "pod") + " to go"
	case j.suspended:
		why = "it is suspended: " + why
	case j.pausing > 0:
		why += ", and pods that failed are replaced in " + some((j.pausing+pods.Second-1)/pods.Second, "second")
	case j.lateReplacement && j.terminating > 0 && j.active == 0:
		why += ", and before they are replaced " + some(j.terminating, "pod") + " must end"
	default:
		why += ", and it waits for " + some(j.active, "active pod")
	}
	j.out.Why = []string{why}
}
