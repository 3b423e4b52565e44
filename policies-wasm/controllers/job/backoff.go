package job

import (
	"strconv"
	"strings"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// The pause after a failure, in nanoseconds: the first, and the longest.
const (
	firstPause = 10 * pods.Second
	lastPause  = 360 * pods.Second
)

// memory is an annotation of the job: how many pods had failed since the last
// one succeeded, and when the last had. It is written when a pod counts that
// goes, so that the pause does not end with the pod.
const memory = "berth.dev/job-failures"

// recent is how many pods have failed since the last one succeeded, and when the
// last did.
func (j *job) recent() (failures, last int64) {
	since := int64(-1)
	for i := range j.pods {
		if p := &j.pods[i]; p.phase == podSucceeded && j.counts(p) {
			since = max(since, j.ended(p))
		}
	}
	if n, at := j.remembered(); at > since {
		failures, last, since = n, at, at
	}
	for i := range j.pods {
		p := &j.pods[i]
		// Whose finalizer is off while it goes was deleted by the job, or has been
		// counted.
		if !j.counts(p) || !j.failed(p) || !p.tracked && p.gone {
			continue
		}
		if at := j.ended(p); at > since {
			failures, last = failures+1, max(last, at)
		}
	}
	return failures, last
}

func (j *job) remembered() (failures, at int64) {
	text, _ := j.Parent.Annotations.Get(memory)
	count, since, _ := strings.Cut(text, " ")
	failures, err := strconv.ParseInt(count, 10, 32)
	if at = pods.Nanos(since); err != nil || failures < 0 || at > j.Now {
		return 0, 0
	}
	return failures, at
}

// remember notes the failures so far.
func (j *job) remember() {
	failures, last := j.recent()
	if failures == 0 {
		return
	}
	w := &json.Writer{}
	w.Open('{').Key("metadata").Open('{').Key("annotations").Open('{')
	w.Key(memory).Text(strconv.FormatInt(failures, 10) + " " + pods.Time(last))
	patch := string(w.Close('}').Close('}').Close('}').Bytes())
	j.out.Patch = append(j.out.Patch, reconcile.Patch{UID: j.Parent.UID, Patch: patch})
}

// pause is how long replacements have to wait still.
func (j *job) pause(failures, last int64) int64 {
	if failures == 0 {
		return 0
	}
	pause := int64(firstPause)
	for i := int64(1); i < failures && pause < lastPause; i++ {
		pause = min(2*pause, lastPause)
	}
	return max(last+pause-j.Now, 0)
}

// wait asks again when pods may be created.
func (j *job) wait(left int64) {
	j.pausing = left
	j.again(left)
}
