package schedule

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/queue"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/schedule/volumes"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

// core is the scheduler without goroutines, clock and I/O: it is told events,
// times and how binds ended, and says what shall be written.
//
// It is large because its files are the events that it is told of, and all of
// them change one state.
type core struct {
	cluster *snapshot.Cluster
	locator snapshot.Locator
	queue   *queue.Queue
	decider *cycle.Decider
	ledger  *volumes.Ledger
	reasons *framework.Reasons
	traces  *Traces
	// logBytes bounds the log of changes and traces.
	logBytes int
	set      func() *framework.LiveSet
	clock    func() int64
	failed   func(policy string, err error)
	decided  func(Outcome, time.Duration)

	seed    uint64
	cycles  uint64
	lastSet *framework.LiveSet
	digests map[*framework.Profile]*framework.Digest
	// assumed are pods that have a place here and are not seen bound yet.
	assumed map[types.UID]*assumption
	// settling are plans, of pods that are bound or wait for volumes to be made,
	// whose claims and volumes are not seen bound yet; those stay reserved.
	settling map[types.UID]*volumes.Plan
	// latest holds the newest state of pods that have a place.
	latest map[types.UID]*v1.Pod
	// unclaimed are pods whose schedulerName no profile claims.
	unclaimed map[types.UID]*v1.Pod
	// evicted are victims that have been told to go and are still here.
	evicted map[types.UID]bool
	budgets []*cycle.Budget

	out outbox
}

// assumption is a reservation on its way into the store.
type assumption struct {
	entry *queue.Entry
	// node is the node as it was when the decision was made.
	node *v1.Node
	plan volumes.Plan
}

// outbox is what the core wants written.
type outbox struct {
	bindings   []Binding
	conditions []Condition
	evictions  []Eviction
	provisions []Provision
	notices    []notice
}

// notice is an Event for users.
type notice struct {
	pod                   *v1.Pod
	kind, reason, message string
}

func newCore(c Config) *core {
	cluster := snapshot.New(c.LogBytes)
	failed := c.Failed
	if failed == nil {
		failed = func(string, error) {}
	}
	return &core{
		cluster:   cluster,
		queue:     queue.New(),
		decider:   cycle.New(cycle.Options{Reasons: c.Reasons, MemoryBytes: c.MemoryBytes, OnDivergence: c.OnDivergence}),
		ledger:    newLedger(cluster),
		reasons:   c.Reasons,
		traces:    newTraces(c.FirstDecision),
		logBytes:  c.LogBytes,
		set:       c.Set,
		clock:     func() int64 { return c.Clock().UnixNano() },
		failed:    failed,
		decided:   c.Decided,
		seed:      c.Seed,
		assumed:   map[types.UID]*assumption{},
		settling:  map[types.UID]*volumes.Plan{},
		latest:    map[types.UID]*v1.Pod{},
		unclaimed: map[types.UID]*v1.Pod{},
		evicted:   map[types.UID]bool{},
		digests:   map[*framework.Profile]*framework.Digest{},
	}
}

func newLedger(cluster *snapshot.Cluster) *volumes.Ledger { return volumes.New(cluster) }

// apply takes in events.
func (c *core) apply(events []Event, now int64) {
	for _, e := range events {
		switch o := e.Object.(type) {
		case *v1.Pod:
			c.applyPod(o, e.Deleted, now)
		case *v1.Node:
			c.applyNode(o, e.Deleted, now)
		case *policyv1.PodDisruptionBudget:
			c.applyBudget(o, e.Deleted)
		default:
			c.applyObject(e)
		}
	}
	c.queue.Follow(c.cluster, now)
}

func (c *core) applyNode(node *v1.Node, deleted bool, now int64) {
	if !deleted {
		c.cluster.UpsertNode(node)
		return
	}
	// For whom room was being made there look elsewhere.
	for _, uid := range c.cluster.Lesser(node.Name, math.MaxInt32) {
		c.cluster.Unnominate(uid)
		if e := c.queue.Get(uid); e != nil {
			e.Nominated = ""
			c.queue.Wake(e, now)
		}
	}
	c.cluster.RemoveNode(node.Name)
}

func (c *core) applyObject(e Event) {
	if e.Deleted {
		c.cluster.RemoveObject(e.Resource, e.Object.GetNamespace(), e.Object.GetName())
	} else {
		c.cluster.UpsertObject(e.Resource, e.Object)
	}
	c.ledger.Changed(e.Resource)
	if e.Resource != volumes.Claims && e.Resource != volumes.Volumes {
		return
	}
	for uid, plan := range c.settling {
		if c.planSeen(plan) {
			delete(c.settling, uid)
			c.ledger.Release(plan)
		}
	}
}

func (c *core) applyBudget(b *policyv1.PodDisruptionBudget, deleted bool) {
	c.budgets = slices.DeleteFunc(c.budgets, func(o *cycle.Budget) bool {
		return o.Namespace == b.Namespace && o.Name == b.Name
	})
	if !deleted {
		c.budgets = append(c.budgets, cycle.NewBudget(b))
	}
}

func (c *core) applyPod(object *v1.Pod, deleted bool, now int64) {
	switch {
	case deleted || snapshot.Finished(object):
		c.forgetPod(object.UID, now)
	case object.Spec.NodeName != "":
		c.placePod(object, now)
	case object.DeletionTimestamp != nil:
		// Nobody will run it: it waits for its finalizers.
		c.forgetPod(object.UID, now)
	case c.assumed[object.UID] == nil:
		c.enqueue(object, now)
	}
}

// forgetPod takes a pod out of everything, also one whose bind is under way:
// when that bind is answered, there is nothing to give back any more.
func (c *core) forgetPod(uid types.UID, now int64) {
	c.release(uid)
	c.cluster.Remove(uid)
	if e := c.queue.Get(uid); e != nil {
		c.traces.gone(e.Pod)
	}
	c.queue.Delete(uid)
	c.vacate(uid, "", now)
	delete(c.latest, uid)
	delete(c.unclaimed, uid)
	delete(c.evicted, uid)
}

// release forgets an assumption and gives its volumes back.
func (c *core) release(uid types.UID) {
	c.unsettle(uid)
	a := c.assumed[uid]
	if a == nil {
		return
	}
	delete(c.assumed, uid)
	c.ledger.Release(&a.plan)
}

// placePod counts a pod that is bound.
func (c *core) placePod(object *v1.Pod, now int64) {
	uid := object.UID
	if a := c.assumed[uid]; a != nil {
		c.settle(uid, a)
	}
	c.queue.Delete(uid)
	c.vacate(uid, object.Spec.NodeName, now)
	delete(c.unclaimed, uid)
	was := c.latest[uid]
	c.latest[uid] = object
	placed, node, ok := c.cluster.Placed(uid)
	if ok && node == object.Spec.NodeName && (alike(placed.Object, object) || was != nil && alike(was, object)) {
		return
	}
	c.cluster.Place(snapshot.NewPod(object), object.Spec.NodeName)
}

// settle ends an assumption whose pod is bound. Its volumes stay reserved until
// claims and volumes are seen bound too.
func (c *core) settle(uid types.UID, a *assumption) {
	delete(c.assumed, uid)
	c.queue.Delete(uid)
	if c.planSeen(&a.plan) {
		c.ledger.Release(&a.plan)
		return
	}
	c.settling[uid] = &a.plan
}

// planSeen says whether the claims and volumes of a plan are known to be bound,
// or gone.
func (c *core) planSeen(plan *volumes.Plan) bool {
	for _, m := range plan.Matches {
		claim, ok := c.cluster.Object(volumes.Claims, m.Claim.Namespace, m.Claim.Name).(*v1.PersistentVolumeClaim)
		if ok && claim.UID == m.Claim.UID && claim.Spec.VolumeName == "" {
			return false
		}
		volume, ok := c.cluster.Object(volumes.Volumes, "", m.Volume.Name).(*v1.PersistentVolume)
		if ok && volume.UID == m.Volume.UID && volume.Spec.ClaimRef == nil {
			return false
		}
	}
	return true
}

// alike says at little cost that two states of a pod are the same for
// scheduling, its node aside: they share what a binder does not touch.
func alike(a, b *v1.Pod) bool {
	if (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) || len(a.Spec.Containers) != len(b.Spec.Containers) ||
		len(a.Spec.Tolerations) != len(b.Spec.Tolerations) ||
		len(a.Status.ContainerStatuses) > 0 || len(b.Status.ContainerStatuses) > 0 {
		return false
	}
	if len(a.Spec.Containers) > 0 && &a.Spec.Containers[0] != &b.Spec.Containers[0] {
		return false
	}
	return sameTexts(a.Labels, b.Labels) && sameTexts(a.Annotations, b.Annotations)
}

func sameTexts(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// enqueue takes in a pod without a node, if a profile claims it.
func (c *core) enqueue(object *v1.Pod, now int64) {
	if _, _, ok := c.cluster.Placed(object.UID); ok {
		// It has a place: this state is older than that.
		return
	}
	pod := snapshot.NewPod(object)
	if c.set().For(pod) == nil {
		c.disclaim(object, now)
		return
	}
	delete(c.unclaimed, object.UID)
	was := ""
	if known := c.queue.Get(object.UID); known != nil {
		was = known.Pod.Object.Status.NominatedNodeName
	}
	c.queue.Add(pod, now)
	c.renominate(pod, was, now)
}

// disclaim lets a pod go that no profile claims.
func (c *core) disclaim(object *v1.Pod, now int64) {
	c.queue.Delete(object.UID)
	c.vacate(object.UID, "", now)
	c.unclaimed[object.UID] = object
}

// renominate keeps room where a pod's status says, if it says so newly: from before
// this scheduler started, or by somebody else. A state from before room was made says
// nothing, as the one before it did, and takes nothing back.
func (c *core) renominate(pod *snapshot.Pod, was string, now int64) {
	switch node := pod.Object.Status.NominatedNodeName; {
	case node == was:
	case node != "":
		c.vacate(pod.UID(), node, now)
		c.cluster.Nominate(pod, node)
	case c.cluster.NominatedNode(pod.UID()) == was:
		c.vacate(pod.UID(), "", now)
	}
}

// swapped looks again at the pods that no profile claimed, and at those that
// wait, when the live set has changed.
func (c *core) swapped(now int64) {
	set := c.set()
	if set == c.lastSet {
		return
	}
	c.lastSet = set
	clear(c.digests)
	for _, object := range byAge(c.unclaimed) {
		c.enqueue(object, now)
	}
	c.queue.WakeAll(now)
}

// byAge lists pods, the oldest first.
func byAge(pods map[types.UID]*v1.Pod) []*v1.Pod {
	return slices.SortedFunc(maps.Values(pods), func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
}

// bound hears how the bind of a pod ended.
func (c *core) bound(uid types.UID, err error, now int64) {
	a := c.assumed[uid]
	if a == nil {
		// Seen bound already, or deleted in flight.
		return
	}
	if err == nil {
		c.settle(uid, a)
		return
	}
	c.giveBack(uid, a, now)
}

// giveBack ends an assumption that will not become a bind.
func (c *core) giveBack(uid types.UID, a *assumption, now int64) {
	c.release(uid)
	c.cluster.Remove(uid)
	delete(c.latest, uid)
	c.queue.Retry(a.entry, now)
	c.queue.Follow(c.cluster, now)
}

// takeBindings hands over what shall be bound now, at most n. A pod whose node
// has changed or gone since the decision is tried again instead.
func (c *core) takeBindings(n int, now int64) []Binding {
	var list []Binding
	taken := 0
	for _, b := range c.out.bindings {
		if len(list) == n {
			break
		}
		taken++
		a := c.assumed[b.Pod.UID]
		if a == nil {
			continue
		}
		slot, ok := c.cluster.Slot(b.Node)
		if !ok || c.cluster.Row(slot).Node != a.node {
			c.giveBack(b.Pod.UID, a, now)
			continue
		}
		list = append(list, b)
	}
	c.out.bindings = slices.Delete(c.out.bindings, 0, taken)
	return list
}

// step makes one decision; false means that no pod is ready.
func (c *core) step(ctx context.Context) bool {
	now := c.clock()
	c.swapped(now)
	entry := c.queue.Pop(now)
	if entry == nil {
		return false
	}
	set := c.lastSet
	p := set.For(entry.Pod)
	if p == nil {
		c.disclaim(entry.Pod.Object, now)
		return true
	}
	c.decide(ctx, entry, set, p, now)
	return true
}

// decide runs the cycle of a pod.
func (c *core) decide(ctx context.Context, entry *queue.Entry, set *framework.LiveSet, p *framework.Profile, now int64) {
	c.cycles++
	in := cycle.Input{Set: set, Profile: p, Log: c.cluster, Pod: entry.Pod, Now: now, Seed: mix(c.seed + c.cycles)}
	if c.cluster.Nominations() > 0 {
		in.Nominated = c.cluster.Nominated(entry.Pod)
	}
	trace := c.newTrace(set, p, in)
	decision := c.decider.Decide(ctx, in)
	decision, plan := c.planVolumes(entry, decision, &trace)
	for _, f := range decision.Failures {
		c.failed(f.Policy, f.Err)
	}
	trace.Total, trace.Feasible, trace.Nodes, trace.Tied = decision.Total, decision.Feasible, decision.Nodes, decision.Tied
	c.decider.Compare(ctx, decision.Slot)
	if decision.Slot >= 0 {
		c.place(entry, decision, plan, &trace, now)
	} else {
		c.refuse(ctx, entry, decision, in, &trace, now)
	}
	trace.Failures = failuresOf(c.decider.Failures())
	c.decider.End()
	trace.Took = durationSince(c.clock, now)
	if c.decided != nil {
		c.decided(trace.Outcome, trace.Took)
	}
	c.traces.add(trace)
	if placed, _, ok := c.cluster.Placed(entry.Pod.UID()); ok && placed != entry.Pod {
		c.traces.became(entry.Pod, placed) // its node's zone came to it
	}
	c.trim()
	c.queue.Follow(c.cluster, now)
}

// trim keeps changes and traces within their bytes. What can be replayed is what
// both hold, so the older of the two goes first.
func (c *core) trim() {
	for c.cluster.LogBytes()+c.traces.size() > c.logBytes || c.traces.past(c.cluster.Oldest()) {
		if c.traces.past(c.cluster.Oldest()) {
			c.traces.drop()
			continue
		}
		if !c.cluster.Forget() && !c.traces.drop() {
			break
		}
	}
	c.cluster.Beside(c.traces.size())
}

func (c *core) newTrace(set *framework.LiveSet, p *framework.Profile, in cycle.Input) Trace {
	digest := c.digests[p]
	if digest == nil {
		digest = p.Digest()
		c.digests[p] = digest
	}
	object := in.Pod.Object
	return Trace{
		Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		Set: set.Number, Digest: digest, Position: c.cluster.Seq(), Now: in.Now, Seed: in.Seed, Pod: in.Pod, Nominated: in.Nominated,
	}
}

// refuse makes room for the pod if it may, and lets it wait.
func (c *core) refuse(ctx context.Context, entry *queue.Entry, decision cycle.Decision, in cycle.Input, trace *Trace, now int64) {
	if len(decision.Failures) > 0 {
		trace.Outcome, trace.Message = Failed, failure(decision.Failures)+"; "+refusal(decision, c.reasons)
		c.tell(entry, trace.Message, "SchedulerError")
		c.queue.Retry(entry, now)
		return
	}
	trace.Outcome, trace.Message = Refused, refusal(decision, c.reasons)
	c.preempt(ctx, entry, in, trace)
	if trace.Made == "" && decision.Nodes > 0 {
		trace.Message += c.noRoom(entry.Pod, decision)
	}
	c.tell(entry, trace.Message, v1.PodReasonUnschedulable)
	wake := decision.Wake
	if entry.Nominated != "" {
		wake |= waitRoom
	}
	c.queue.Wait(entry, wake, decision.Spread, now)
}

// tell writes the pod's condition and event, unless they say that already.
func (c *core) tell(entry *queue.Entry, message, reason string) {
	nominated := c.cluster.NominatedNode(entry.Pod.UID())
	if entry.Message == message+nominated {
		return
	}
	entry.Message = message + nominated
	object := entry.Pod.Object
	c.out.conditions = append(c.out.conditions, Condition{Pod: object, Reason: reason, Message: message, Nominated: nominated})
	c.out.notices = append(c.out.notices, notice{object, v1.EventTypeWarning, "FailedScheduling", message})
}

// provisionFailed hears that a pod's volumes were not asked for: it is tried again.
func (c *core) provisionFailed(object *v1.Pod, now int64) {
	c.unsettle(object.UID)
	c.retry(object.UID, now)
}

// retry tries a pod again after its backoff that waits for what could not be done.
func (c *core) retry(uid types.UID, now int64) {
	if e := c.queue.Get(uid); e != nil && e.State() == queue.Waiting {
		c.queue.Retry(e, now)
	}
}

// conditionFailed hears that a pod's condition was not written: the next try tells it
// again.
func (c *core) conditionFailed(object *v1.Pod) {
	if e := c.queue.Get(object.UID); e != nil {
		e.Message = ""
	}
}
