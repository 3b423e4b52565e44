package queue

import (
	"container/heap"
	"iter"
	"maps"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Times, as kube-scheduler has them, in nanoseconds.
const (
	initialBackoff = int64(1e9)
	maxBackoff     = int64(10e9)
	// A pod that nothing woke is tried again after this, in case that the
	// groups of a policy said too little.
	maxWaiting = int64(300e9)
	// Who was refused by a policy that reads the time is tried again sooner.
	maxTimed = int64(30e9)
)

// State is where an entry is.
type State uint8

// States of an entry.
const (
	Active State = iota
	Backoff
	Waiting
	Gated
	InFlight
	gone
)

var stateNames = [...]string{"active", "backoff", "waiting", "gated", "in flight", "gone"}

func (s State) String() string { return stateNames[s] }

// Entry is a pod in the queue.
type Entry struct {
	Pod *snapshot.Pod
	// Attempts counts how often it was tried.
	Attempts int
	// Added is when it came.
	Added int64
	// Nominated is the node on which room is being made for it, empty for none,
	// so that it goes on at once when something helps.
	Nominated string
	// Message is the last one that was written about it, to write none twice.
	Message string

	state State
	order uint64
	index int
	// until is when backoff or waiting ends; early lets an idle scheduler try
	// a pod before its backoff has ended.
	until  int64
	failed int64
	early  bool
	groups abi.Groups
	spread bool
}

// State returns where the entry is.
func (e *Entry) State() State { return e.state }

// Gone says that the pod was deleted or bound while it was in flight.
func (e *Entry) Gone() bool { return e.state == gone }

// Queue is the queue.
type Queue struct {
	entries map[types.UID]*Entry
	active  entryHeap
	backoff entryHeap
	// woken are those in backoff which a change could have helped: an idle
	// scheduler tries them early.
	woken   entryHeap
	waiting entryHeap
	// byGroups holds the waiting entries by what they wait for.
	byGroups map[abi.Groups]map[*Entry]struct{}
	gated    int
	inFlight int
	order    uint64
	seq      uint64
}

// New returns an empty queue.
func New() *Queue {
	return &Queue{
		entries:  map[types.UID]*Entry{},
		active:   entryHeap{less: byPriority},
		backoff:  entryHeap{less: byTime},
		woken:    entryHeap{less: byTime},
		waiting:  entryHeap{less: byTime},
		byGroups: map[abi.Groups]map[*Entry]struct{}{},
	}
}

// Len counts the entries by state.
func (q *Queue) Len() (active, backoff, waiting, gated, inFlight int) {
	return q.active.Len(), q.backoff.Len() + q.woken.Len(), q.waiting.Len(), q.gated, q.inFlight
}

// Get returns the entry of a pod, nil for none.
func (q *Queue) Get(uid types.UID) *Entry { return q.entries[uid] }

// Add takes in a pod that has no node, or a new state of one that is here.
func (q *Queue) Add(pod *snapshot.Pod, now int64) *Entry {
	if e := q.entries[pod.UID()]; e != nil {
		q.update(e, pod, now)
		return e
	}
	q.order++
	e := &Entry{Pod: pod, Added: now, order: q.order, index: -1}
	q.entries[pod.UID()] = e
	if gates(pod) {
		e.state = Gated
		q.gated++
		return e
	}
	q.activate(e)
	return e
}

func gates(pod *snapshot.Pod) bool { return len(pod.Object.Spec.SchedulingGates) > 0 }

// update takes a new state; one that matters for scheduling is a change that
// could help.
func (q *Queue) update(e *Entry, pod *snapshot.Pod, now int64) {
	changed := !e.Pod.Same(pod)
	e.Pod = pod
	switch e.state {
	case Gated:
		if !gates(pod) {
			q.gated--
			q.activate(e)
		}
	case Active:
		heap.Fix(&q.active, e.index)
	case Waiting:
		if changed {
			q.wake(e, now)
		}
	}
}

// Delete takes a pod out, because it is bound or deleted.
func (q *Queue) Delete(uid types.UID) {
	e := q.entries[uid]
	if e == nil {
		return
	}
	delete(q.entries, uid)
	q.leave(e)
	e.state = gone
}

// leave takes an entry out of where it is.
func (q *Queue) leave(e *Entry) {
	switch e.state {
	case Active:
		heap.Remove(&q.active, e.index)
	case Backoff:
		heap.Remove(q.backoffOf(e), e.index)
	case Waiting:
		heap.Remove(&q.waiting, e.index)
		delete(q.byGroups[e.groups], e)
		if len(q.byGroups[e.groups]) == 0 {
			delete(q.byGroups, e.groups)
		}
	case Gated:
		q.gated--
	case InFlight:
		q.inFlight--
	}
}

// Pop gives the next pod to try, nil where there is none at this time.
func (q *Queue) Pop(now int64) *Entry {
	q.expire(now)
	e := q.next()
	if e == nil {
		return nil
	}
	e.state = InFlight
	e.Attempts++
	q.inFlight++
	return e
}

func (q *Queue) next() *Entry {
	if q.active.Len() > 0 {
		return heap.Pop(&q.active).(*Entry)
	}
	// Nothing else to do: a pod that a change has woken need not sit out its time.
	if q.woken.Len() > 0 {
		return heap.Pop(&q.woken).(*Entry)
	}
	return nil
}

// expire moves on what has waited long enough.
func (q *Queue) expire(now int64) {
	for _, h := range []*entryHeap{&q.backoff, &q.woken} {
		for h.Len() > 0 && h.list[0].until <= now {
			q.activate(heap.Pop(h).(*Entry))
		}
	}
	for q.waiting.Len() > 0 && q.waiting.list[0].until <= now {
		e := q.waiting.list[0]
		q.leave(e)
		q.activate(e)
	}
}

// Next is when time alone will make a pod ready; ok is false where none waits.
func (q *Queue) Next() (at int64, ok bool) {
	for _, h := range []*entryHeap{&q.backoff, &q.woken, &q.waiting} {
		if h.Len() > 0 && (!ok || h.list[0].until < at) {
			at, ok = h.list[0].until, true
		}
	}
	return at, ok
}

// Wait puts back a pod in flight that fits nowhere until something changes in
// groups; spread says that a change of one row could help on another.
func (q *Queue) Wait(e *Entry, groups abi.Groups, spread bool, now int64) {
	if e.state != InFlight {
		return
	}
	q.inFlight--
	e.state, e.groups, e.spread = Waiting, groups, spread
	e.failed, e.until = now, now+maxWaiting
	if groups&abi.Time != 0 {
		e.until = now + maxTimed
	}
	heap.Push(&q.waiting, e)
	set := q.byGroups[groups]
	if set == nil {
		set = map[*Entry]struct{}{}
		q.byGroups[groups] = set
	}
	set[e] = struct{}{}
}

// Retry puts back a pod in flight whose try or bind failed, or one that waits for
// what could not be done; it is tried again after its backoff.
func (q *Queue) Retry(e *Entry, now int64) {
	if e.state != InFlight && e.state != Waiting {
		return
	}
	q.leave(e)
	e.failed = now
	q.backOff(e, false)
}

func (q *Queue) backOff(e *Entry, early bool) {
	e.state, e.early = Backoff, early
	e.until = e.failed + backoffAfter(e.Attempts)
	heap.Push(q.backoffOf(e), e)
}

func (q *Queue) backoffOf(e *Entry) *entryHeap {
	if e.early {
		return &q.woken
	}
	return &q.backoff
}

func backoffAfter(attempts int) int64 {
	d := initialBackoff
	for i := 1; i < attempts && d < maxBackoff; i++ {
		d *= 2
	}
	return min(d, maxBackoff)
}

func (q *Queue) activate(e *Entry) {
	e.state = Active
	heap.Push(&q.active, e)
}

// Wake tries a waiting pod again.
func (q *Queue) Wake(e *Entry, now int64) {
	if e.state == Waiting {
		q.wake(e, now)
	}
}

// wake moves a waiting entry on.
func (q *Queue) wake(e *Entry, now int64) {
	q.leave(e)
	if e.Nominated != "" || e.failed+backoffAfter(e.Attempts) <= now {
		q.activate(e)
		return
	}
	q.backOff(e, true)
}

// byPriority orders the pods that are ready.
func byPriority(a, b *Entry) bool {
	if p, o := a.Pod.Priority(), b.Pod.Priority(); p != o {
		return p > o
	}
	return a.order < b.order
}

// byTime orders the pods that wait for a time.
func byTime(a, b *Entry) bool {
	if a.until != b.until {
		return a.until < b.until
	}
	return a.order < b.order
}

// Find returns an entry whose pod is the one looked for, nil for none.
func (q *Queue) Find(is func(*v1.Pod) bool) *Entry {
	for _, e := range q.entries {
		if is(e.Pod.Object) {
			return e
		}
	}
	return nil
}

// All are the entries, in no order.
func (q *Queue) All() iter.Seq[*Entry] { return maps.Values(q.entries) }
