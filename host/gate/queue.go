package gate

import (
	"container/heap"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// key names one gate of one pod.
type key struct {
	pod       types.NamespacedName
	condition v1.PodConditionType
}

// Queue knows which gates are due when. It belongs to one goroutine.
type Queue struct {
	entries map[key]*entry
	byPod   map[types.NamespacedName][]v1.PodConditionType
	due     dueHeap
}

type entry struct {
	key   key
	at    time.Time
	index int
	rate  rateLimit
	// lastInput is what its checker was last told and said; nil if that is to be
	// forgotten.
	lastInput *input
	// late says that the last look at its pod took long.
	late bool
}

// A gate may be asked often in a row, as its pod starts, and once a pause in
// the long run, whatever its guest wishes and however often its pod changes.
const (
	burst = 10
	pause = time.Second
)

// rateLimit bounds how often one gate is asked.
type rateLimit struct {
	used  int
	since time.Time // of the first that counts
}

// take says whether the gate may be asked now, and if not, when.
func (a *rateLimit) take(now time.Time) (again time.Time, ok bool) {
	if a.used == 0 {
		a.since = now
	}
	if back := int(now.Sub(a.since) / pause); back > 0 {
		a.used = max(a.used-back, 0)
		a.since = a.since.Add(time.Duration(back) * pause)
	}
	if a.used >= burst {
		return a.since.Add(pause), false
	}
	a.used++
	return now, true
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{entries: map[key]*entry{}, byPod: map[types.NamespacedName][]v1.PodConditionType{}}
}

// Changed makes all gates of the pod due now; a pod that has none, has ended
// or has no node yet is forgotten.
func (b *Queue) Changed(pod *v1.Pod, now time.Time) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if !gated(pod) {
		b.Forget(name)
		return
	}
	// The gates of a pod never change; one of the same name is another pod,
	// whose predecessor may have left unseen.
	gates := gatesOf(pod)
	if !slices.Equal(gates, b.byPod[name]) {
		b.Forget(name)
		b.byPod[name] = gates
	}
	for _, condition := range gates {
		k := key{name, condition}
		if b.entries[k] == nil {
			b.entries[k] = &entry{key: k, index: -1}
		}
		b.Requeue(name, condition, now)
	}
}

// gatesOf are the condition types that a pod waits for, each once: it may name
// one twice.
func gatesOf(pod *v1.Pod) []v1.PodConditionType {
	gates := make([]v1.PodConditionType, len(pod.Spec.ReadinessGates))
	for i, g := range pod.Spec.ReadinessGates {
		gates[i] = g.ConditionType
	}
	slices.Sort(gates)
	return slices.Compact(gates)
}

// gated says whether the pod's gates are worth asking about.
func gated(pod *v1.Pod) bool {
	if len(pod.Spec.ReadinessGates) == 0 || pod.Spec.NodeName == "" {
		return false
	}
	return pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
}

// Forget drops the pod.
func (b *Queue) Forget(name types.NamespacedName) {
	for _, condition := range b.byPod[name] {
		k := key{name, condition}
		if e := b.entries[k]; e != nil {
			if e.index >= 0 {
				heap.Remove(&b.due, e.index)
			}
			delete(b.entries, k)
		}
	}
	delete(b.byPod, name)
}

// Requeue makes one gate due at a time, or earlier if it already is. One that was
// forgotten stays so.
func (b *Queue) Requeue(name types.NamespacedName, condition v1.PodConditionType, at time.Time) {
	k := key{name, condition}
	e := b.entries[k]
	if e == nil {
		return
	}
	if e.index < 0 {
		e.at = at
		heap.Push(&b.due, e)
		return
	}
	if at.Before(e.at) {
		e.at = at
		heap.Fix(&b.due, e.index)
	}
}

// All makes every gate due now: the checkers have changed.
func (b *Queue) All(now time.Time) {
	for k := range b.entries {
		b.Requeue(k.pod, k.condition, now)
	}
}

// Due takes out at most limit gates that are due; those that were asked too
// often become due later.
func (b *Queue) Due(now time.Time, limit int) []key {
	var keys []key
	for len(b.due) > 0 && len(keys) < limit && !b.due[0].at.After(now) {
		e := b.due[0]
		if again, ok := e.rate.take(now); !ok {
			e.at = again
			heap.Fix(&b.due, 0)
			continue
		}
		keys = append(keys, heap.Pop(&b.due).(*entry).key)
	}
	return keys
}

// lastInput is what was said about one gate; nil without one.
func (b *Queue) lastInput(k key) *input {
	if e := b.entries[k]; e != nil {
		return e.lastInput
	}
	return nil
}

// setLastInput keeps what was said about a gate.
func (b *Queue) setLastInput(k key, t *input) {
	if e := b.entries[k]; e != nil {
		e.lastInput = t
	}
}

// late says whether the last look for a gate took long.
func (b *Queue) late(k key) bool {
	e := b.entries[k]
	return e != nil && e.late
}

func (b *Queue) setLate(k key, late bool) {
	if e := b.entries[k]; e != nil {
		e.late = late
	}
}

// Next is when the next gate is due.
func (b *Queue) Next() (time.Time, bool) {
	if len(b.due) == 0 {
		return time.Time{}, false
	}
	return b.due[0].at, true
}

// Len is how many gates there are.
func (b *Queue) Len() int { return len(b.entries) }

type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = -1
	return e
}
