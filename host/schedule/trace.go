package schedule

import (
	"sync"
	"time"

	"github.com/berth-dev/berth/host/schedule/profile"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	"k8s.io/apimachinery/pkg/types"
)

// Outcome is how a cycle ended.
type Outcome string

// Outcomes.
const (
	Placed     Outcome = "Placed"
	Refused    Outcome = "Refused"
	Failed     Outcome = "Failed"
	Provisions Outcome = "Provisions"
)

// Trace is what is kept of a decision: enough to derive it again, nothing per node.
type Trace struct {
	Number    uint64
	Namespace string
	Name      string
	UID       types.UID
	// Set is the live set that decided, Digest its policies.
	Set    int64
	Digest *profile.Digest
	// Position is the log's position before the decision's own reservation.
	Position uint64
	Now      int64
	Seed     uint64
	Pod      *snapshot.Pod
	// Nominated are the pods whose room was respected, by slot.
	Nominated map[int32][]*snapshot.Pod
	// Excluded are rows where the pod's volumes could not be had, and why.
	Excluded map[int32]string

	Outcome  Outcome
	Node     string
	Total    int64
	Feasible int
	Nodes    int
	Tied     int
	Message  string
	// Made is where room was made by preemption.
	Made string
	Took time.Duration
}

// Traces keeps the newest decisions, a bounded number of them. It is safe for
// concurrent use.
type Traces struct {
	mu    sync.Mutex
	ring  []Trace
	first uint64 // the number of the first of all
	next  uint64
	byPod map[types.UID]uint64
	names map[types.NamespacedName]types.UID
}

func newTraces(limit int, first uint64) *Traces {
	if limit <= 0 {
		limit = 1 << 14
	}
	return &Traces{first: first, next: first, ring: make([]Trace, limit), byPod: map[types.UID]uint64{}, names: map[types.NamespacedName]types.UID{}}
}

func (t *Traces) add(trace Trace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	trace.Number = t.next
	at := &t.ring[t.next%uint64(len(t.ring))]
	if at.Pod != nil && t.byPod[at.UID] == at.Number {
		delete(t.byPod, at.UID)
		if name := (types.NamespacedName{Namespace: at.Namespace, Name: at.Name}); t.names[name] == at.UID {
			delete(t.names, name)
		}
	}
	*at = trace
	t.byPod[trace.UID] = trace.Number
	t.names[types.NamespacedName{Namespace: trace.Namespace, Name: trace.Name}] = trace.UID
	t.next++
}

// Of returns the newest decision about a pod.
func (t *Traces) Of(namespace, name string) (Trace, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	uid, ok := t.names[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return Trace{}, false
	}
	n, ok := t.byPod[uid]
	if !ok {
		return Trace{}, false
	}
	return t.ring[n%uint64(len(t.ring))], true
}

// Get returns the decision with a number.
func (t *Traces) Get(number uint64) (Trace, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number < t.first || number >= t.next || number+uint64(len(t.ring)) < t.next {
		return Trace{}, false
	}
	return t.ring[number%uint64(len(t.ring))], true
}

// Last returns up to n of the newest decisions, the oldest first.
func (t *Traces) Last(n int) []Trace {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(n, len(t.ring), int(t.next-t.first))
	list := make([]Trace, 0, n)
	for i := t.next - uint64(n); i < t.next; i++ {
		list = append(list, t.ring[i%uint64(len(t.ring))])
	}
	return list
}

// after returns the decisions from a number on that are kept.
func (t *Traces) after(number uint64) []Trace {
	t.mu.Lock()
	n := t.next - min(number, t.next)
	t.mu.Unlock()
	if n == 0 {
		return nil
	}
	return t.Last(int(n))
}
