package cycle

import (
	"cmp"
	"context"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Input is what a decision is made of.
type Input struct {
	Set     *framework.LiveSet
	Profile *framework.Profile
	Log     snapshot.Log
	Pod     *snapshot.Pod
	// Now is in nanoseconds since 1970, for policies that read the time.
	Now int64
	// Seed breaks ties.
	Seed uint64
	// Nominated are the pods of equal or higher priority for which room is
	// being made, by slot.
	Nominated map[int32][]*snapshot.Pod
	// Failed are policies that shall fail as they did in a decision that is made
	// again: as these failures tell, with these errors.
	Failed []Failure
}

// Decision is what came out.
type Decision struct {
	// Slot is the row that was picked, -1 for none.
	Slot  int32
	Total int64
	// Nodes were looked at, Feasible could take the pod, Tied had the top total.
	Nodes, Feasible, Tied int
	// Refusals count the rows by the reason of the first who refused them,
	// where no row was feasible.
	Refusals []Refusal
	// Whole is the reason for which a policy refused the pod as such, on every
	// row; 0 for none.
	Whole framework.ReasonID
	// Words say it by name, where that policy does.
	Words string
	// Wake are the groups in which a change could help; Spread is true where a
	// change of one row could help on another.
	Wake   abi.Groups
	Spread bool
	// Failures are policies that failed; the pod should be tried again soon.
	Failures []Failure
}

// Refusal is how many rows were refused for one reason.
type Refusal struct {
	Reason framework.ReasonID
	Count  int
}

// Decide asks the profile about a pod and picks a row.
func (d *Decider) Decide(ctx context.Context, in Input) Decision {
	r := d.begin(in)
	c := d.classFor(ctx, r)
	d.refresh(ctx, r, c)
	d.divideFiner(ctx, r, c)
	d.check(ctx, r, c)
	f := &d.field
	f.start(c)
	d.narrowAfresh(ctx, r, f)
	d.narrowNominated(ctx, r, f, in.Nominated)
	d.weighAfresh(ctx, r, f)
	if r.shut != 0 {
		f.refuseAll(r.shut)
	}
	decision := d.conclude(r, f, d.pickNative(r, f))
	if c.built && r.tainted {
		c.built = false
	}
	return decision
}

// Again picks another row than the one picked before, which proved unable for
// the reason given.
func (d *Decider) Again(slot int32, reason string) Decision {
	if d.field.totalOf(slot) != out {
		d.field.refuse(slot, byHost, d.hostReason(reason, false))
	}
	return d.conclude(&d.run, &d.field, d.field.best(d.run.seed))
}

// GiveUp refuses all rows that are left, for a reason of the host's own.
func (d *Decider) GiveUp(reason string) Decision {
	d.field.refuseAll(d.hostReason(reason, false))
	return d.conclude(&d.run, &d.field, choice{slot: -1})
}

// Compare has shadows look at the cycle, while the pod counts nowhere yet.
func (d *Decider) Compare(ctx context.Context, picked int32) {
	r := &d.run
	if after := r.profile.After; after != nil {
		f := &d.field
		after(ctx, r.log, r.pod, r.now, framework.Outcome{
			Rows:    f.list(),
			Refused: func(row int32) bool { return f.totalOf(row) == out },
			Winner:  picked,
		})
	}
}

// Failures are the policies that failed in the cycle, also in a preemption.
func (d *Decider) Failures() []Failure { return d.run.failures }

// End ends the cycle: what it used may be used by the next one.
func (d *Decider) End() {
	d.shed()
	d.endCycle()
}

func (d *Decider) begin(in Input) *run {
	if len(d.partitions.all) > maxPartitions {
		d.forget()
	}
	d.partitions.follow(in.Log)
	if d.set != in.Set || d.stale {
		d.forgetClasses()
		d.set, d.stale = in.Set, false
	}
	r := &d.run
	r.log, r.pod, r.profile, r.now, r.seed = in.Log, in.Pod, in.Profile, in.Now, in.Seed
	r.tainted, r.failures, r.again, r.shut = false, nil, in.Failed, 0
	r.coarse, r.finer, r.questions = false, 0, 0
	r.foreseen = append(r.foreseen[:0], make([]int, len(in.Profile.Predicates))...)
	r.predicates, r.priorities = r.predicates[:0], r.priorities[:0]
	r.remembered, r.afresh, r.afreshScores = r.remembered[:0], r.afresh[:0], r.afreshScores[:0]
	for i := range in.Profile.Predicates {
		policy := in.Profile.Predicates[i].Policy
		r.predicates = append(r.predicates, session{policy: policy})
		if d.remembers(policy.Info()) {
			r.remembered = append(r.remembered, i)
			continue
		}
		r.afresh = append(r.afresh, i)
	}
	for i := range in.Profile.Priorities {
		policy := in.Profile.Priorities[i].Policy
		r.priorities = append(r.priorities, session{policy: policy})
		if !d.remembers(policy.Info()) {
			r.afreshScores = append(r.afreshScores, i)
		}
	}
	r.unmeter()
	return r
}

// pickNative refuses rows where the pod does not fit by the host's own sums,
// once the best row proves to be one: no policy can overcommit.
func (d *Decider) pickNative(r *run, f *field) choice {
	best := f.best(r.seed)
	if best.slot < 0 || r.log.Row(best.slot).Fits(r.pod) {
		return best
	}
	for _, slot := range slices.Clone(f.list()) {
		if short := r.log.Row(slot).Shortage(r.pod); short != "" {
			f.refuse(slot, byHost, d.hostReason(short, true))
		}
	}
	f.listed = false
	return f.best(r.seed)
}

// choice is a slot with the highest total, and how many have it.
type choice struct {
	slot  int32
	total int64
	tied  int
}

func splitmix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func (d *Decider) conclude(r *run, f *field, best choice) Decision {
	decision := Decision{Slot: best.slot, Total: best.total, Tied: best.tied, Feasible: f.feasible, Failures: r.failures, Nodes: f.class.part.rows}
	if best.slot < 0 {
		d.blame(r, f, &decision)
	}
	return decision
}

// blame counts who refused, and what would have to change.
func (d *Decider) blame(r *run, f *field, decision *Decision) {
	counts := map[framework.ReasonID]int{}
	blamed := make([]bool, len(r.predicates))
	count := func(by int16, why framework.ReasonID, rows int) {
		switch {
		case by == empty:
			return
		case by == byHost:
			decision.Wake |= abi.NodeUsage | abi.NodeCapacity | abi.Volumes
		case by >= 0:
			blamed[by] = true
		}
		counts[why] += rows
	}
	if f.own {
		for slot, by := range f.ownBy {
			count(by, f.ownWhy[slot], 1)
		}
	} else {
		for id, by := range f.class.by {
			count(by, f.class.why[id], int(f.class.size[id]))
		}
	}
	for i, yes := range blamed {
		if !yes {
			continue
		}
		if answer := r.answered(f.class, i); answer.Ask == abi.AskRefuse {
			decision.Whole, decision.Words = answer.Reason, answer.Words
		}
		info := r.profile.Predicates[i].Policy.Info()
		decision.Wake |= info.Reads &^ abi.PodGroups
		decision.Spread = decision.Spread || info.Scope == abi.ScopeSet
	}
	for reason, n := range counts {
		decision.Refusals = append(decision.Refusals, Refusal{Reason: reason, Count: n})
	}
	slices.SortFunc(decision.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(d.reasons.Get(a.Reason).Text, d.reasons.Get(b.Reason).Text))
	})
}

// answered is what a predicate said of the pod as such, in this cycle or before.
func (r *run) answered(c *class, i int) framework.Answer {
	if k := slices.Index(r.remembered, i); k >= 0 && c.predicates[k].answered {
		return c.predicates[k].answer
	}
	return r.predicates[i].answer
}
