package job

import (
	"slices"
	"strconv"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// stop deletes what is active once the job has come to its end.
func (j *job) stop() {
	j.out.Step = len(j.running) > burst
	for _, at := range j.running[:min(len(j.running), burst)] {
		j.remove(&j.pods[at])
	}
}

func (j *job) remove(p *pod) {
	j.out.Delete = append(j.out.Delete, reconcile.Deletion{UID: j.child(p).UID})
	j.active--
	j.terminating++
	if p.ready {
		j.ready--
	}
}

// manage brings about as many pods as the job wants, and finds out whether it is
// complete.
func (j *job) manage() {
	managed := j.Parent.Deleted == 0
	if managed {
		j.scale()
	}
	complete := j.done > 0
	if !j.queue {
		complete = j.done >= int64(j.completions)
	}
	switch {
	case complete && j.active == 0:
		j.finish = j.condition(successCriteriaMet, "CompletionsReached", "Reached expected number of succeeded pods")
	case managed && j.suspended:
		if j.ensure(suspended, "True", "JobSuspended", "Job suspended") {
			j.event("Normal", "Suspended", "Job suspended")
			j.startTime = ""
		}
	case managed:
		if j.ensure(suspended, "False", "JobResumed", "Job resumed") {
			j.event("Normal", "Resumed", "Job resumed")
			j.startTime = pods.Time(j.Now)
		}
	}
}

// scale deletes pods that are too many, or else creates those that are missing.
func (j *job) scale() {
	want := int64(0)
	switch {
	case j.suspended:
	case j.queue && j.done > 0:
		want = j.active
	case j.queue:
		want = j.parallelism
	default:
		want = max(min(int64(j.completions)-j.done, j.parallelism), 0)
	}
	surplus := j.surplus(int(max(j.active-want, 0)))
	j.out.Step = len(surplus) > burst
	surplus = surplus[:min(len(surplus), burst)]
	for _, at := range surplus {
		p := &j.pods[at]
		p.free = true
		j.remove(p)
	}
	if len(surplus) > 0 || j.suspended {
		return
	}
	missing := want - j.active
	if j.lateReplacement {
		missing -= j.terminating
	}
	if missing > 0 {
		j.out.Step = missing > burst
		j.create(int(min(missing, burst)))
	}
}

// surplus are at least so many pods to take away: those whose index is none of
// the job's or that another pod has too, and then those that are missed least.
func (j *job) surplus(atLeast int) (gone []int) {
	left := j.running
	if j.indexed {
		gone, left = j.doubled()
	}
	if n := atLeast - len(gone); n > 0 {
		left = slices.Clone(left)
		if n < len(left) {
			j.byLoss(left)
		}
		gone = append(gone, left[:min(n, len(left))]...)
	}
	return gone
}

// doubled are the active pods that no index needs, and the others.
func (j *job) doubled() (gone, left []int) {
	sorted := slices.Clone(j.running)
	slices.SortFunc(sorted, func(a, b int) int {
		if d := j.pods[a].index - j.pods[b].index; d != 0 {
			return d
		}
		return j.compare(&j.pods[a], &j.pods[b])
	})
	for i, at := range sorted {
		p := &j.pods[at]
		if !j.valid(p) || i+1 < len(sorted) && j.pods[sorted[i+1]].index == p.index {
			gone = append(gone, at)
			continue
		}
		left = append(left, at)
	}
	return gone, left
}

// create makes pods, unless there is a pause after failures.
func (j *job) create(n int) {
	if !j.perIndex {
		if left := j.pause(j.recent()); left > 0 {
			j.wait(left)
			return
		}
	}
	if !j.indexed {
		j.out.Create = []reconcile.Creation{{From: "spec.template", Object: j.template(), Count: int64(n)}}
	} else if n = j.createIndexes(n); n == 0 {
		return
	}
	if j.Refused == "" { // or who knows what is refused this time
		j.active += int64(n)
	}
}

func (j *job) createIndexes(n int) int {
	indexes := j.pendingIndexes(n)
	if j.perIndex {
		indexes = j.due(indexes)
	}
	if len(indexes) == 0 {
		return 0
	}
	each := make([]string, len(indexes))
	w := &json.Writer{}
	for i, index := range indexes {
		_, replaces := j.replaced[index] // what it replaces is counted next
		j.out.Step = j.out.Step || replaces
		w.Reset()
		j.atIndex(w, index)
		each[i] = string(w.Bytes())
	}
	j.out.Create = []reconcile.Creation{{From: "spec.template", Object: j.template(), Each: each}}
	return len(indexes)
}

// pendingIndexes are the first so many indexes that no pod is or was there for.
func (j *job) pendingIndexes(n int) []int {
	taken := j.succeededIndexes.merge(j.activeIndexes())
	if j.lateReplacement {
		var going []int
		for i := range j.pods {
			if p := &j.pods[i]; p.terminating() && p.index != none {
				going = append(going, p.index)
			}
		}
		taken = taken.with(going)
	}
	return taken.merge(j.failedIndexes).missing(n, j.completions)
}

// due are the indexes whose last failure is long enough ago.
func (j *job) due(indexes []int) (now []int) {
	wait := int64(0)
	for _, index := range indexes {
		left := int64(0)
		if at, ok := j.replaced[index]; ok {
			p := &j.pods[at]
			left = j.pause(j.failures(p)+1, j.ended(p))
		}
		if left == 0 {
			now = append(now, index)
		} else if wait == 0 || left < wait {
			wait = left
		}
	}
	if len(now) == 0 {
		j.wait(wait)
	}
	return now
}

// template is a merge patch of spec.template that all pods of the job share.
func (j *job) template() string {
	w := &json.Writer{}
	w.Open('{').Key("apiVersion").Text("v1").Key("kind").Text("Pod").Key("metadata").Open('{')
	var list []string
	for _, f := range j.Parent.Field("spec.template.metadata.finalizers").Items() {
		if text, _ := f.Text(); text != tracking {
			list = append(list, text)
		}
	}
	w.Key("finalizers").Texts(append(list, tracking))
	w.Close('}')
	if j.indexed {
		w.Key("spec").Open('{')
		for _, key := range [...]string{"initContainers", "containers"} {
			if list := j.Parent.Field("spec.template.spec." + key).Items(); len(list) > 0 {
				w.Key(key).Open('[')
				for _, c := range list {
					withIndex(w, c)
				}
				w.Close(']')
			}
		}
		w.Close('}')
	}
	return string(w.Close('}').Bytes())
}

// withIndex writes a container that is told its pod's index.
func withIndex(w *json.Writer, container sdk.Config) {
	const name = "JOB_COMPLETION_INDEX"
	w.Open('{')
	for i, key := range container.Keys() {
		if key != "env" {
			w.Key(key).Value(container.Items()[i].JSON())
		}
	}
	told := false
	w.Key("env").Open('[')
	for _, v := range container.Object("env").Items() {
		w.Value(v.JSON())
		told = told || v.String("name", "") == name
	}
	if !told {
		w.Open('{').Key("name").Text(name).Key("valueFrom").Open('{').Key("fieldRef").Open('{')
		w.Key("fieldPath").Text("metadata.labels['" + completionIndex + "']").Close('}').Close('}').Close('}')
	}
	w.Close(']').Close('}')
}

// atIndex is a merge patch that makes a pod that of one index.
func (j *job) atIndex(w *json.Writer, index int) {
	text := strconv.Itoa(index)
	w.Open('{').Key("metadata").Open('{')
	w.Key("generateName").Text(generatedName(j.Parent.Name, "-"+text+"-"))
	w.Key("labels").Open('{').Key(completionIndex).Text(text).Close('}')
	w.Key("annotations").Open('{').Key(completionIndex).Text(text)
	if j.perIndex {
		failures, ignored := j.inherited(index)
		w.Key(failureCount).Text(strconv.FormatInt(failures, 10))
		if ignored > 0 {
			w.Key(ignoredCount).Text(strconv.FormatInt(ignored, 10))
		}
	}
	w.Close('}').Close('}').Key("spec").Open('{').Key("hostname").Text(j.Parent.Name + "-" + text)
	w.Close('}').Close('}')
}

// inherited are the failures of an index so far, and those that do not count.
func (j *job) inherited(index int) (failures, ignored int64) {
	at, ok := j.replaced[index]
	if !ok {
		return 0, 0
	}
	p := &j.pods[at]
	failures, ignored = numberIn(j.child(p), failureCount), numberIn(j.child(p), ignoredCount)
	if j.policy(p).ignored {
		return failures, ignored + 1
	}
	return failures + 1, ignored
}

// generatedName is cut so that what the host adds still fits a label.
func generatedName(job, index string) string {
	const most = 58
	return job[:min(len(job), most-len(index))] + index
}
