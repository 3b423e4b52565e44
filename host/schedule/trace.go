package schedule

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/schedule/chunkqueue"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
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
	Digest *framework.Digest
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
	// Preemption is nil where no room was sought.
	Preemption *Preemption
	// Failures are the policies that failed.
	Failures []Failure
	Took     time.Duration
}

// Traces keeps the newest decisions, as many as the log of changes reaches back
// to. It is safe for concurrent use.
type Traces struct {
	mu     sync.Mutex
	list   chunkqueue.List[storedTrace]
	origin uint64 // the number of the first of all
	first  uint64 // and of the first that is kept
	next   uint64
	// newest is the number of the newest decision about a name, by its hash.
	newest map[uint64]uint64
	// made are the numbers of the newest decisions that made room for a pod or
	// made it go.
	made map[types.UID]uint64
	// budgets are those of the newest preemption: the next one shares them.
	budgets []*cycle.Budget
	era     *traceHeader
}

const (
	tracesTogether = 512      // go at a time
	keptBytes      = 104 + 32 // a kept, and its place in newest
	oddBytes       = 96
	madeBytes      = 128
	victimBytes    = 64 + 64 // a victim, and its place in made
)

// kept is a Trace as it lies in memory.
type storedTrace struct {
	era      *traceHeader
	odd      *traceExtra // what most decisions have nothing of
	pod      *snapshot.Ref
	name     uint64
	node     string
	position uint64
	now      int64
	seed     uint64
	total    int64
	took     time.Duration
	feasible int32
	nodes    int32
	tied     int32
	outcome  uint8
}

// era is what many decisions in a row have in common.
type traceHeader struct {
	set    int64
	digest *framework.Digest
}

// odd is what sets a decision apart from one that simply placed its pod.
type traceExtra struct {
	nominated map[int32][]*snapshot.Ref
	excluded  map[int32]string
	message   string
	made      *preemptionDetail
}

// made is a Preemption as it lies in memory, and what failed.
type preemptionDetail struct {
	node     string
	sought   bool
	by       types.UID
	victims  []victimRef
	budgets  []*cycle.Budget
	started  Starts
	failures []Failure
}

// gone is a victim.
type victimRef struct {
	pod    *snapshot.Ref
	uid    types.UID
	breaks []string
}

// soughtInVain is what nearly all have in common that looked for room and found
// none: no pod came into question.
var soughtInVain = &preemptionDetail{sought: true}

var outcomes = [...]Outcome{Placed, Refused, Failed, Provisions, ""}

var nameSeed = maphash.MakeSeed()

// hashOf stands for a name in the index; whoever finds something by it compares.
func hashOf(namespace, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(nameSeed)
	_, _ = h.WriteString(namespace)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(name)
	return h.Sum64()
}

func newTraces(first uint64) *Traces {
	return &Traces{
		list:   chunkqueue.New[storedTrace](tracesTogether, keptBytes),
		origin: first, first: first, next: first, newest: map[uint64]uint64{}, made: map[types.UID]uint64{},
	}
}

func (t *Traces) add(trace Trace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.era == nil || t.era.set != trace.Set || t.era.digest != trace.Digest {
		t.era = &traceHeader{set: trace.Set, digest: trace.Digest}
	}
	k := storedTrace{
		era: t.era, pod: trace.Pod.Ref(), name: hashOf(trace.Namespace, trace.Name), node: trace.Node,
		position: trace.Position, now: trace.Now, seed: trace.Seed, total: trace.Total, took: trace.Took,
		feasible: int32(trace.Feasible), nodes: int32(trace.Nodes), tied: int32(trace.Tied),
		outcome: uint8(slices.Index(outcomes[:], trace.Outcome)),
	}
	before, past := t.last(k.name), 0
	if before != nil && before.pod != k.pod {
		past = before.pod.Pack() // that state of the pod is past
	}
	made, detail := t.madeOf(&trace)
	odd, extra := oddOf(&trace, before, made)
	k.odd = odd
	t.list.Add(k, past+detail+extra)
	t.newest[k.name] = t.next
	t.next++
}

// last is the newest decision about a name, nil if there is none.
func (t *Traces) last(name uint64) *storedTrace {
	number, ok := t.newest[name]
	if !ok {
		return nil
	}
	return t.at(number)
}

// became hears that the pod which was decided about last counts as another now.
func (t *Traces) became(pod, on *snapshot.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list.Hold(pod.Ref().Became(on))
}

// gone hears that a pod which waited is gone.
func (t *Traces) gone(pod *snapshot.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.last(hashOf(pod.Object.Namespace, pod.Object.Name))
	if k != nil && k.pod == pod.Ref() {
		t.list.Hold(k.pod.Pack())
	}
}

// oddOf is what sets the decision apart, and how many bytes that takes. A pod is
// often refused for the same reasons as before.
func oddOf(trace *Trace, before *storedTrace, made *preemptionDetail) (o *traceExtra, holds int) {
	if trace.Nominated == nil && trace.Excluded == nil && trace.Message == "" && made == nil {
		return nil, 0
	}
	o = &traceExtra{excluded: trace.Excluded, message: trace.Message, made: made}
	o.nominated, holds = nominatedOf(trace)
	for _, why := range o.excluded {
		holds += 64 + len(why)
	}
	if before != nil && before.odd != nil && before.odd.message == o.message {
		o.message = before.odd.message
		if o.excluded == nil && o.nominated == nil && before.odd.made == o.made && before.odd.excluded == nil && before.odd.nominated == nil {
			return before.odd, holds
		}
	} else {
		holds += len(o.message)
	}
	return o, holds + oddBytes
}

// nominatedOf are the pods that were nominated to each slot, nil if there are none,
// and how many bytes that takes.
func nominatedOf(trace *Trace) (nominated map[int32][]*snapshot.Ref, holds int) {
	if len(trace.Nominated) == 0 {
		return nil, 0
	}
	nominated = make(map[int32][]*snapshot.Ref, len(trace.Nominated))
	for slot, pods := range trace.Nominated {
		for _, p := range pods {
			nominated[slot] = append(nominated[slot], p.Ref())
			holds += 16
		}
		holds += 64
	}
	return nominated, holds
}

// madeOf is what there is to keep of how room was sought, and how many bytes that
// takes.
func (t *Traces) madeOf(trace *Trace) (m *preemptionDetail, holds int) {
	p := trace.Preemption
	switch {
	case p == nil && trace.Made == "" && len(trace.Failures) == 0:
		return nil, 0
	case p == nil:
		p = &Preemption{}
	case trace.Made == "" && len(trace.Failures)+len(p.Budgets)+len(p.Started) == 0:
		return soughtInVain, 0
	}
	m = &preemptionDetail{node: trace.Made, sought: trace.Preemption != nil, by: trace.UID, started: p.Started, failures: trace.Failures}
	m.budgets, holds = t.sharedBudgets(p.Budgets)
	for _, v := range p.Victims {
		m.victims = append(m.victims, victimRef{pod: v.Pod.Ref(), uid: v.Pod.UID(), breaks: v.Breaks})
		t.made[v.Pod.UID()] = t.next
		holds += victimBytes
		for _, name := range v.Breaks {
			holds += 16 + len(name)
		}
	}
	if trace.Made != "" {
		t.made[trace.UID] = t.next
		holds += victimBytes
	}
	for _, f := range m.failures {
		holds += 64 + 4*cap(f.Rows)
	}
	return m, holds + madeBytes + cap(m.started)
}

// sharedBudgets are the budgets as the preemption before this one has them, if
// they are the same, and how many bytes they take beside those.
func (t *Traces) sharedBudgets(budgets []*cycle.Budget) (shared []*cycle.Budget, holds int) {
	if slices.Equal(budgets, t.budgets) {
		return t.budgets, 0
	}
	for _, b := range budgets {
		if !slices.Contains(t.budgets, b) {
			holds += b.Weight()
		}
	}
	t.budgets = budgets
	return budgets, holds + 8*cap(budgets)
}

// forget takes a decision that goes out of the places where others look for it.
func (t *Traces) forget(k *storedTrace, number uint64) {
	if t.newest[k.name] == number {
		delete(t.newest, k.name)
	}
	if k.odd == nil || k.odd.made == nil {
		return
	}
	m := k.odd.made
	for _, uid := range append(m.uids(), m.by) {
		if t.made[uid] == number {
			delete(t.made, uid)
		}
	}
}

func (m *preemptionDetail) uids() []types.UID {
	list := make([]types.UID, 0, len(m.victims)+1)
	for i := range m.victims {
		list = append(list, m.victims[i].uid)
	}
	return list
}

// fill gives a trace what was made.
func (m *preemptionDetail) fill(trace *Trace) {
	trace.Made, trace.Failures = m.node, m.failures
	if !m.sought {
		return
	}
	trace.Preemption = &Preemption{Budgets: m.budgets, Started: m.started}
	for _, v := range m.victims {
		trace.Preemption.Victims = append(trace.Preemption.Victims, cycle.Victim{Pod: v.pod.Pod(), Breaks: v.breaks})
	}
}

// size is about what all take in memory.
func (t *Traces) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list.Bytes()
}

// past says whether the oldest piece lies before a position of the log as a whole.
func (t *Traces) past(position uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.list.Oldest()
	return oldest != nil && oldest[len(oldest)-1].position < position
}

// drop forgets the oldest piece; the newest stays.
func (t *Traces) drop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := t.list.Drop()
	for i := range gone {
		t.forget(&gone[i], t.first+uint64(i))
	}
	t.first += uint64(len(gone))
	return gone != nil
}

// at is the decision with a number, nil if it is not kept.
func (t *Traces) at(number uint64) *storedTrace {
	if number < t.first || number >= t.next {
		return nil
	}
	return t.list.At(int(number - t.first))
}

// trace is the decision as it was made.
func (t *Traces) trace(number uint64) Trace {
	k := t.at(number)
	pod := k.pod.Pod()
	trace := Trace{
		Number: number, Namespace: pod.Object.Namespace, Name: pod.Object.Name, UID: pod.UID(),
		Set: k.era.set, Digest: k.era.digest, Position: k.position, Now: k.now, Seed: k.seed, Pod: pod,
		Outcome: outcomes[k.outcome], Node: k.node, Total: k.total, Feasible: int(k.feasible),
		Nodes: int(k.nodes), Tied: int(k.tied), Took: k.took,
	}
	if k.odd == nil {
		return trace
	}
	trace.Excluded, trace.Message = k.odd.excluded, k.odd.message
	if k.odd.made != nil {
		k.odd.made.fill(&trace)
	}
	for slot, refs := range k.odd.nominated {
		if trace.Nominated == nil {
			trace.Nominated = make(map[int32][]*snapshot.Pod, len(k.odd.nominated))
		}
		for _, r := range refs {
			trace.Nominated[slot] = append(trace.Nominated[slot], r.Pod())
		}
	}
	return trace
}

// Of returns the newest decision about a pod.
func (t *Traces) Of(namespace, name string) (Trace, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	hash := hashOf(namespace, name)
	if t.last(hash) == nil {
		return Trace{}, false
	}
	trace := t.trace(t.newest[hash])
	return trace, trace.Namespace == namespace && trace.Name == name
}

// Making returns the newest decision that made room for a pod, or made it go.
func (t *Traces) Making(uid types.UID) (Trace, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	number, ok := t.made[uid]
	if !ok {
		return Trace{}, false
	}
	return t.trace(number), true
}

// Get returns the decision with a number.
func (t *Traces) Get(number uint64) (Trace, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at(number) == nil {
		return Trace{}, false
	}
	return t.trace(number), true
}

// Range are the numbers of the oldest decision that is kept, and of the next
// that will be made.
func (t *Traces) Range() (first, next uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first, t.next
}

// Lost is how many of the n newest decisions are not kept any more.
func (t *Traces) Lost(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	made := min(uint64(n), t.next-t.origin)
	return int(made - min(made, t.next-t.first))
}

// From is the number of the first decision that was made at a position of the
// log or behind it; next where there is none.
func (t *Traces) From(position uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first + uint64(t.list.Search(func(k *storedTrace) bool { return k.position >= position }))
}

// Last returns up to n of the newest decisions, the oldest first.
func (t *Traces) Last(n int) []Trace {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(n, int(t.next-t.first))
	list := make([]Trace, 0, n)
	for i := t.next - uint64(n); i < t.next; i++ {
		list = append(list, t.trace(i))
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
