package job

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// tracking is the finalizer of pods that are not counted yet.
const tracking = "batch.kubernetes.io/job-tracking"

// Labels and annotations of a pod.
const (
	completionIndex = "batch.kubernetes.io/job-completion-index"
	failureCount    = "batch.kubernetes.io/job-index-failure-count"
	ignoredCount    = "batch.kubernetes.io/job-index-ignored-failure-count"
)

// none is the index of a pod that has none.
const none = -1

type phase byte

const (
	podPending phase = iota
	podUnknown
	podRunning
	podSucceeded
	podFailed
)

func phaseOf(text string) phase {
	switch text {
	case "Unknown":
		return podUnknown
	case "Running":
		return podRunning
	case "Succeeded":
		return podSucceeded
	case "Failed":
		return podFailed
	}
	return podPending
}

// pod is a pod of the job. It holds no pointer, so that thousands of them cost a
// collector nothing.
type pod struct {
	at    int // its place among the children
	index int
	phase phase
	// tracked: it bears the finalizer, also when this answer takes it off.
	tracked bool
	// bore: it bore the finalizer before this answer; free says that it loses it.
	bore, free bool
	gone       bool // it is being deleted
	ready      bool
	// matched says what the pod failure policy makes of it, once it was asked.
	matched match
}

func (j *job) child(p *pod) *reconcile.Object { return j.Children[p.at] }

func (p *pod) ended() bool { return p.phase == podSucceeded || p.phase == podFailed }

func (p *pod) active() bool { return !p.ended() && !p.gone }

// terminating tells whether the pod is on its way out and has not ended.
func (p *pod) terminating() bool { return !p.ended() && p.gone }

// failed tells whether the pod is taken for one that failed.
func (j *job) failed(p *pod) bool {
	return p.phase == podFailed || p.terminating() && !j.lateReplacement
}

// valid tells whether the pod's index is one of the job's.
func (j *job) valid(p *pod) bool { return p.index != none && p.index < j.completions }

// counts tells whether the pod, once it has ended, counts.
func (j *job) counts(p *pod) bool { return !j.indexed || j.valid(p) }

// claim takes in the pods that are the job's, and lets others go.
func (j *job) claim() {
	j.pods = make([]pod, 0, len(j.Children))
	for i := range j.Children {
		o := j.Children[i]
		matches := j.selector.Matches(j.Symbols, o.Labels.Pairs)
		owner := o.Controller()
		p := pod{at: i, bore: slices.Contains(o.Finalizers, tracking)}
		switch {
		case owner == j.Parent.UID && matches:
			p.tracked = p.bore
		case owner == j.Parent.UID && j.Parent.Deleted == 0:
			j.out.Release = append(j.out.Release, o.UID)
			j.out.RemoveFinalizer(o, tracking)
			continue
		case owner == "" && matches && j.Parent.Deleted == 0 && o.Deleted == 0:
			j.out.Adopt = append(j.out.Adopt, o.UID)
			p.tracked = true
		case owner == "" && matches: // and one of the two goes
			j.out.RemoveFinalizer(o, tracking)
			continue
		default:
			continue
		}
		p.index, p.phase, p.gone, p.ready = indexOf(o), phaseOf(o.Pod.Phase), o.Deleted != 0, o.Pod.Ready
		j.pods = append(j.pods, p)
	}
}

// letGo takes the finalizer off pods that a job still has which has finished or is
// gone: off some, and the rest when these are seen.
func (j *job) letGo() {
	for i := range j.Children {
		if j.out.Step = len(j.out.Patch) == burst; j.out.Step {
			return
		}
		if owner := j.Children[i].Controller(); owner == "" || owner == j.Parent.UID {
			j.out.RemoveFinalizer(j.Children[i], tracking)
		}
	}
}

// letGoOfOrphans takes the finalizer off pods that are nobody's, and go.
func (j *job) letGoOfOrphans() {
	for _, o := range j.Children {
		if o.Controller() == "" && o.Deleted != 0 {
			j.out.RemoveFinalizer(o, tracking)
		}
	}
}

func indexOf(o *reconcile.Object) int {
	text, ok := o.Annotations.Get(completionIndex)
	if !ok {
		return none
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return none
	}
	return n
}

// count counts what is there, and what is to be counted by this answer.
func (j *job) count() {
	fresh := int64(0)
	for i := range j.pods {
		p := &j.pods[i]
		switch {
		case p.active():
			j.running = append(j.running, i)
			if p.ready {
				j.ready++
			}
		case p.terminating():
			j.terminating++
		}
		if !p.tracked || !j.counts(p) {
			continue
		}
		uid := j.child(p).UID
		switch {
		case p.phase == podSucceeded && !j.uncounted.succeeded[uid]:
			j.done++
		case j.failed(p) && !j.uncounted.failed[uid] && !j.policy(p).ignored:
			fresh++
		}
	}
	j.active = int64(len(j.running))
	j.done += j.status.succeeded + int64(len(j.uncounted.succeeded))
	j.lost = j.status.failed + fresh + int64(len(j.uncounted.failed))
}

// ended is when the pod came to its end. Of thousands of pods the fact is too
// much to parse for this: the time stands in front.
func (j *job) ended(p *pod) int64 {
	text, ok := strings.CutPrefix(j.child(p).JSON("pod.end"), `{"at":"`)
	text, _, _ = strings.Cut(text, `"`)
	if at := pods.Nanos(text); ok && at != 0 {
		return at
	}
	return j.child(p).Created
}

// numberIn reads a count that an annotation of a pod holds.
func numberIn(o *reconcile.Object, annotation string) int64 {
	text, _ := o.Annotations.Get(annotation)
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int64(n)
}

// byLoss orders pods by how much they would be missed, the least first.
func (j *job) byLoss(list []int) {
	slices.SortFunc(list, func(a, b int) int { return j.compare(&j.pods[a], &j.pods[b]) })
}

func (j *job) compare(a, b *pod) int {
	o, other := j.child(a), j.child(b)
	before := func(first bool) int {
		if first {
			return -1
		}
		return 1
	}
	switch {
	case (o.Pod.NodeName == "") != (other.Pod.NodeName == ""):
		return before(o.Pod.NodeName == "")
	case a.phase != b.phase:
		return before(a.phase < b.phase)
	case a.ready != b.ready:
		return before(!a.ready)
	case a.ready && o.Pod.ReadySince != other.Pod.ReadySince:
		return before(younger(o.Pod.ReadySince, other.Pod.ReadySince))
	case o.Pod.Restarts != other.Pod.Restarts:
		return before(o.Pod.Restarts > other.Pod.Restarts)
	case o.Created != other.Created:
		return before(younger(o.Created, other.Created))
	}
	return a.at - b.at
}

// younger compares times; one that is missing is the youngest.
func younger(at, other int64) bool { return at == 0 || other != 0 && at > other }
