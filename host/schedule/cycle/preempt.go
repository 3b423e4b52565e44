package cycle

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
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
	Victims []Victim
}

// Victim is a pod that must go.
type Victim struct {
	Pod *snapshot.Pod
	// Breaks names the disruption budgets of its namespace that do not allow it.
	Breaks []string
}

// Room is what a preemption reckons with beside the cluster.
type Room struct {
	Budgets []*Budget
	// Nominated are as in Input.
	Nominated map[int32][]*snapshot.Pod
	// Started returns when a placed pod started, as StartOf tells it of the pod's
	// newest state. It is asked only where that decides.
	Started func(*snapshot.Pod) int64
	// Counted hears of each budget that covers a pod which might go. May be nil.
	Counted func(*Budget)
}

// candidate is a row on which room might be made.
type candidate struct {
	row *snapshot.Row
	// left is the row without the pods that are removed so far.
	left    *snapshot.Row
	removed []*snapshot.Pod
	// back are the pods to bring back, if possible, in this order: first those
	// that budgets protect.
	back []*snapshot.Pod
	// breaks are the budgets that the violating ones break.
	breaks  [][]string
	victims []Victim
	broken  int
	out     bool
}

// Preempt looks for the row on which the pod of the cycle, that fits nowhere,
// would fit at the least cost. It must follow Decide.
func (d *Decider) Preempt(ctx context.Context, room Room) (Preemption, bool) {
	r := &d.run
	list := d.candidates(ctx, r, room)
	d.probe(ctx, r, list, room)
	for i := range list {
		if !list[i].out {
			list[i].order(room)
		}
	}
	d.reprieve(ctx, r, list, room)
	best := pickCandidate(list, room)
	if best == nil {
		return Preemption{}, false
	}
	slices.SortStableFunc(best.victims, func(a, b Victim) int { return room.byImportance(a.Pod, b.Pod) })
	return Preemption{Slot: best.row.Slot, Victims: best.victims}, true
}

// candidates lists rows whose refusal could be helped by removing pods of lower
// priority, from a seeded start on, as many as may be asked about.
func (d *Decider) candidates(ctx context.Context, r *run, room Room) []candidate {
	var rows []int32
	d.field.take()
	for slot := range d.field.ownBy {
		if d.Resolvable(int32(slot)) {
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

// Resolvable says whether removing pods could help on a row that refused the pod of
// the cycle. It must follow Decide.
func (d *Decider) Resolvable(slot int32) bool {
	f := &d.field
	f.take()
	return f.ownBy[slot] != empty && d.reasons.Get(f.ownWhy[slot]).Resolvable
}

// propose takes all pods of lower priority away and looks whether there would
// be room by the host's own sums.
func propose(row *snapshot.Row, pod *snapshot.Pod, room Room) (candidate, bool) {
	c := candidate{row: row}
	if !row.CouldFit(pod) {
		return c, false
	}
	c.removed = row.Lesser(pod.Priority())
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
		if _, ok := policy.(framework.WhatIfer); ok && policy.Info().Reads&occupied != 0 {
			continue
		}
		r.foreseen[i]++
		answer, err := r.predicates[i].ask(ctx, r)
		if again := r.failsAgain(policy, r.foreseen[i]); err == nil && again != nil {
			err = again.Err
		}
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
			fill(verdicts, d.predicateFailed(r, i, Failure{Err: err, Foreseeing: r.foreseen[i]}))
		}
		for k, slot := range rows {
			refused[slot] = refused[slot] || verdicts[k] != 0
		}
	}
	return slices.DeleteFunc(list, func(c candidate) bool { return refused[c.row.Slot] })
}

// question asks whether the pod fits a candidate as it now is left.
func (c *candidate) question(row *snapshot.Row, removed []*snapshot.Pod, more []*snapshot.Pod) framework.WhatIf {
	deltas := make([]snapshot.Delta, 0, 1+len(removed)+len(more))
	groups := snapshot.UsageGroups(removed...) | snapshot.UsageGroups(more...)
	deltas = append(deltas, snapshot.Delta{Kind: snapshot.RowUpsert, Slot: row.Slot, Groups: groups, Row: row})
	for _, p := range removed {
		deltas = append(deltas, snapshot.Delta{Kind: snapshot.PodRemoved, Slot: row.Slot, Groups: abi.Pods, Pod: p})
	}
	for _, p := range more {
		deltas = append(deltas, snapshot.Delta{Kind: snapshot.PodPlaced, Slot: row.Slot, Groups: abi.Pods, Pod: p})
	}
	return framework.WhatIf{Row: row.Slot, Deltas: deltas}
}

// probe drops the candidates that would not take the pod even then.
func (d *Decider) probe(ctx context.Context, r *run, list []candidate, room Room) {
	questions := make([]framework.WhatIf, len(list))
	for i := range list {
		c := &list[i]
		questions[i] = c.question(c.left, c.removed, room.Nominated[c.row.Slot])
	}
	if len(questions) > 0 {
		d.foresee(ctx, r, questions, func(k, _ int, _ framework.ReasonID) { list[k].out = true })
	}
}

// order sets in which order the removed pods are brought back: those that a
// budget protects first, and the more important ones before others.
func (c *candidate) order(room Room) {
	pods := slices.Clone(c.removed)
	slices.SortStableFunc(pods, room.byImportance)
	violating, others := room.split(pods)
	for _, v := range violating {
		c.back = append(c.back, v.Pod)
		c.breaks = append(c.breaks, v.Breaks)
	}
	c.back = append(c.back, others...)
}

// reprieve brings pods back, one of each candidate a round, where the pod still
// fits with them; the others are the victims.
func (d *Decider) reprieve(ctx context.Context, r *run, list []candidate, room Room) {
	for round := 0; ; round++ {
		var questions []framework.WhatIf
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
		d.foresee(ctx, r, questions, func(k, _ int, _ framework.ReasonID) { refused[k] = true })
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
	victim := Victim{Pod: c.back[round]}
	if round < len(c.breaks) {
		victim.Breaks = c.breaks[round]
		c.broken++
	}
	c.victims = append(c.victims, victim)
}

// byImportance puts pods of higher priority first, and those that run longer.
func (m Room) byImportance(a, b *snapshot.Pod) int {
	if order := cmp.Compare(b.Priority(), a.Priority()); order != 0 {
		return order
	}
	return cmp.Compare(m.started(a), m.started(b))
}

func (m Room) started(p *snapshot.Pod) int64 {
	if m.Started == nil {
		return StartOf(p.Object)
	}
	return m.Started(p)
}

// split tells the pods whose budgets do not allow that they go from the others.
func (m Room) split(pods []*snapshot.Pod) (violating []Victim, others []*snapshot.Pod) {
	if len(m.Budgets) == 0 {
		return nil, pods
	}
	allowed := make([]int32, len(m.Budgets))
	for i, b := range m.Budgets {
		allowed[i] = b.Allowed
	}
	for _, p := range pods {
		v := Victim{Pod: p}
		for i, b := range m.Budgets {
			if !b.covers(p.Object) {
				continue
			}
			if m.Counted != nil {
				m.Counted(b)
			}
			if allowed[i]--; allowed[i] < 0 {
				v.Breaks = append(v.Breaks, b.Name)
			}
		}
		if len(v.Breaks) > 0 {
			violating = append(violating, v)
			continue
		}
		others = append(others, p)
	}
	return violating, others
}

// pickCandidate follows kube-scheduler: fewest broken budgets, then the lowest
// of the highest priorities, then the lowest sum of priorities, then the fewest
// victims, then the latest start of the most important ones, then the first.
func pickCandidate(list []candidate, room Room) *candidate {
	var best *candidate
	var bestRank [4]int64
	for i := range list {
		c := &list[i]
		if c.out || len(c.victims) == 0 {
			continue
		}
		rank := c.rank()
		order := slices.Compare(rank[:], bestRank[:])
		if best == nil || order < 0 || order == 0 && c.earliest(room) > best.earliest(room) {
			best, bestRank = c, rank
		}
	}
	return best
}

// rank is smaller for a better candidate.
func (c *candidate) rank() [4]int64 {
	sum := int64(0)
	for _, v := range c.victims {
		sum += int64(v.Pod.Priority()) + math.MaxInt32 + 1
	}
	return [4]int64{int64(c.broken), c.highest(), sum, int64(len(c.victims))}
}

func (c *candidate) highest() int64 {
	highest := int64(math.MinInt64)
	for _, v := range c.victims {
		highest = max(highest, int64(v.Pod.Priority()))
	}
	return highest
}

// earliest is when the first of the most important victims started.
func (c *candidate) earliest(room Room) int64 {
	earliest, highest := int64(math.MaxInt64), c.highest()
	for _, v := range c.victims {
		if int64(v.Pod.Priority()) == highest {
			earliest = min(earliest, room.started(v.Pod))
		}
	}
	return earliest
}
