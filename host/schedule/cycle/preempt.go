package cycle

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/profile"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Bounds of how many candidates are looked at, as in kube-scheduler.
const (
	candidatesAtLeast = 100
	candidatesPercent = 10
)

// Preemption is the room that can be made for a pod.
type Preemption struct {
	Slot int32
	// Victims must go, the most important first.
	Victims []*snapshot.Pod
	// Violations counts those whose disruption budget does not allow it.
	Violations int
}

// Room is what a preemption may do.
type Room struct {
	Budgets []*policyv1.PodDisruptionBudget
	// Nominated are as in Input.
	Nominated map[int32][]*snapshot.Pod
	// Latest returns the newest state of a placed pod.
	Latest func(*snapshot.Pod) *v1.Pod
}

// candidate is a row on which room might be made.
type candidate struct {
	row *snapshot.Row
	// left is the row without the pods that are removed so far.
	left    *snapshot.Row
	removed []*snapshot.Pod
	// back are the pods to bring back, if possible, in this order; the first
	// violating of them are protected by a budget.
	back      []*snapshot.Pod
	violating int
	victims   []*snapshot.Pod
	broken    int
	out       bool
}

// Preempt looks for the row on which the pod of the cycle, that fits nowhere,
// would fit at the least cost. It must follow Decide.
func (d *Decider) Preempt(ctx context.Context, room Room) (Preemption, bool) {
	r := &d.run
	list := d.candidates(ctx, r, room)
	d.probe(ctx, r, list, room)
	for i := range list {
		if !list[i].out {
			list[i].order(r, room)
		}
	}
	d.reprieve(ctx, r, list, room)
	best := pickCandidate(list, room)
	if best == nil {
		return Preemption{}, false
	}
	slices.SortStableFunc(best.victims, room.byImportance)
	return Preemption{Slot: best.row.Slot, Victims: best.victims, Violations: best.broken}, true
}

// candidates lists rows whose refusal could be helped by removing pods of lower
// priority, from a seeded start on, as many as may be asked about.
func (d *Decider) candidates(ctx context.Context, r *run, room Room) []candidate {
	var rows []int32
	for slot, by := range d.field.by {
		if by != empty && d.reasons.Get(d.field.why[slot]).Resolvable {
			rows = append(rows, int32(slot))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	limit := max(candidatesAtLeast, len(rows)*candidatesPercent/100)
	from := int(splitmix(r.seed+1) % uint64(len(rows)))
	var list []candidate
	for i := 0; i < len(rows) && len(list) < limit; i++ {
		row := r.log.Row(rows[(from+i)%len(rows)])
		if c, ok := propose(row, r.pod, room); ok {
			list = append(list, c)
		}
	}
	return d.standing(ctx, r, list)
}

// propose takes all pods of lower priority away and looks whether there would
// be room by the host's own sums.
func propose(row *snapshot.Row, pod *snapshot.Pod, room Room) (candidate, bool) {
	c := candidate{row: row}
	if !row.CouldFit(pod) {
		return c, false
	}
	for _, p := range row.Pods {
		if p.Priority() < pod.Priority() {
			c.removed = append(c.removed, p)
		}
	}
	if len(c.removed) == 0 {
		return c, false
	}
	c.left = row.Without(c.removed...)
	if more := room.Nominated[row.Slot]; len(more) > 0 {
		c.left = c.left.With(more...)
	}
	return c, c.left.Fits(pod)
}

// standing keeps the candidates whom those predicates admit that no coming or
// going of pods can move.
func (d *Decider) standing(ctx context.Context, r *run, list []candidate) []candidate {
	rows := make([]int32, len(list))
	for i := range list {
		rows[i] = list[i].row.Slot
	}
	refused := map[int32]bool{}
	for i := range r.predicates {
		policy := r.profile.Predicates[i].Policy
		if _, ok := policy.(profile.Foreseer); ok && policy.Info().Reads&occupied != 0 {
			continue
		}
		answer, err := r.predicates[i].ask(ctx, r)
		verdicts := d.verdictsFor(len(rows))
		switch {
		case err != nil:
		case answer.Ask == abi.AskSkip:
			continue
		case answer.Ask == abi.AskRefuse:
			fill(verdicts, answer.Reason)
		default:
			err = r.profile.Predicates[i].Policy.Filter(ctx, rows, verdicts)
		}
		if err != nil {
			fill(verdicts, d.predicateFailed(r, i, err))
		}
		for k, slot := range rows {
			refused[slot] = refused[slot] || verdicts[k] != 0
		}
	}
	return slices.DeleteFunc(list, func(c candidate) bool { return refused[c.row.Slot] })
}

// question asks whether the pod fits a candidate as it now is left.
func (c *candidate) question(row *snapshot.Row, removed []*snapshot.Pod, more []*snapshot.Pod) profile.WhatIf {
	deltas := make([]snapshot.Delta, 0, 1+len(removed)+len(more))
	groups := snapshot.UsageGroups(removed...) | snapshot.UsageGroups(more...)
	deltas = append(deltas, snapshot.Delta{Kind: snapshot.RowUpsert, Slot: row.Slot, Groups: groups, Row: row})
	for _, p := range removed {
		deltas = append(deltas, snapshot.Delta{Kind: snapshot.PodRemoved, Slot: row.Slot, Groups: abi.Pods, Pod: p})
	}
	for _, p := range more {
		deltas = append(deltas, snapshot.Delta{Kind: snapshot.PodPlaced, Slot: row.Slot, Groups: abi.Pods, Pod: p})
	}
	return profile.WhatIf{Row: row.Slot, Deltas: deltas}
}

// probe drops the candidates that would not take the pod even then.
func (d *Decider) probe(ctx context.Context, r *run, list []candidate, room Room) {
	questions := make([]profile.WhatIf, len(list))
	for i := range list {
		c := &list[i]
		questions[i] = c.question(c.left, c.removed, room.Nominated[c.row.Slot])
	}
	if len(questions) > 0 {
		d.foresee(ctx, r, questions, func(k, _ int, _ profile.ReasonID) { list[k].out = true })
	}
}

// order sets in which order the removed pods are brought back: those that a
// budget protects first, and the more important ones before others.
func (c *candidate) order(_ *run, room Room) {
	pods := slices.Clone(c.removed)
	slices.SortStableFunc(pods, room.byImportance)
	violating, others := room.split(pods)
	c.violating = len(violating)
	c.back = others
	if len(violating) > 0 {
		c.back = append(violating, others...)
	}
}

// reprieve brings pods back, one of each candidate a round, where the pod still
// fits with them; the others are the victims.
func (d *Decider) reprieve(ctx context.Context, r *run, list []candidate, room Room) {
	for round := 0; ; round++ {
		var questions []profile.WhatIf
		var asked []int
		more := false
		for i := range list {
			c := &list[i]
			if c.out || round >= len(c.back) {
				continue
			}
			more = true
			if !c.left.FitsBeside(c.back[round], r.pod) {
				c.condemn(round)
				continue
			}
			next := c.left.With(c.back[round])
			c.left = next
			rest := slices.DeleteFunc(slices.Clone(c.removed), func(p *snapshot.Pod) bool { return p == c.back[round] })
			questions = append(questions, c.question(next, rest, room.Nominated[c.row.Slot]))
			asked = append(asked, i)
		}
		if !more {
			return
		}
		if len(questions) == 0 {
			continue
		}
		refused := make([]bool, len(questions))
		d.foresee(ctx, r, questions, func(k, _ int, _ profile.ReasonID) { refused[k] = true })
		for k, i := range asked {
			list[i].settle(round, refused[k])
		}
	}
}

func (c *candidate) settle(round int, refused bool) {
	pod := c.back[round]
	if refused {
		c.left = c.left.Without(pod)
		c.condemn(round)
		return
	}
	c.removed = slices.DeleteFunc(c.removed, func(p *snapshot.Pod) bool { return p == pod })
}

func (c *candidate) condemn(round int) {
	c.victims = append(c.victims, c.back[round])
	if round < c.violating {
		c.broken++
	}
}

// byImportance puts pods of higher priority first, and those that run longer.
func (m Room) byImportance(a, b *snapshot.Pod) int {
	return cmp.Or(cmp.Compare(b.Priority(), a.Priority()), cmp.Compare(m.started(a), m.started(b)))
}

// started is when a pod started; one that has not yet counts as the latest.
func (m Room) started(p *snapshot.Pod) int64 {
	object := p.Object
	if m.Latest != nil {
		if latest := m.Latest(p); latest != nil {
			object = latest
		}
	}
	if object.Status.StartTime == nil {
		return math.MaxInt64
	}
	return object.Status.StartTime.UnixNano()
}

// split tells the pods whose budget does not allow that they go from the others.
func (m Room) split(pods []*snapshot.Pod) (violating, others []*snapshot.Pod) {
	if len(m.Budgets) == 0 {
		return nil, pods
	}
	allowed := make([]int32, len(m.Budgets))
	for i, b := range m.Budgets {
		allowed[i] = b.Status.DisruptionsAllowed
	}
	for _, p := range pods {
		broken := false
		for i, b := range m.Budgets {
			if !covers(b, p.Object) {
				continue
			}
			allowed[i]--
			broken = broken || allowed[i] < 0
		}
		if broken {
			violating = append(violating, p)
			continue
		}
		others = append(others, p)
	}
	return violating, others
}

// covers says whether a budget speaks of a pod that it has not counted yet.
func covers(b *policyv1.PodDisruptionBudget, pod *v1.Pod) bool {
	if b.Namespace != pod.Namespace || len(pod.Labels) == 0 {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	_, counted := b.Status.DisruptedPods[pod.Name]
	return !counted
}

// pickCandidate follows kube-scheduler: fewest broken budgets, then the lowest
// of the highest priorities, then the lowest sum of priorities, then the fewest
// victims, then the latest start of the most important ones, then the first.
func pickCandidate(list []candidate, room Room) *candidate {
	var best *candidate
	var bestRank [5]int64
	for i := range list {
		c := &list[i]
		if c.out || len(c.victims) == 0 {
			continue
		}
		rank := c.rank(room)
		if best == nil || slices.Compare(rank[:], bestRank[:]) < 0 {
			best, bestRank = c, rank
		}
	}
	return best
}

// rank is smaller for a better candidate.
func (c *candidate) rank(room Room) [5]int64 {
	highest, sum := int64(math.MinInt64), int64(0)
	for _, p := range c.victims {
		highest = max(highest, int64(p.Priority()))
		sum += int64(p.Priority()) + math.MaxInt32 + 1
	}
	earliest := int64(math.MaxInt64)
	for _, p := range c.victims {
		if int64(p.Priority()) == highest {
			earliest = min(earliest, room.started(p))
		}
	}
	return [5]int64{int64(c.broken), highest, sum, int64(len(c.victims)), -earliest}
}
