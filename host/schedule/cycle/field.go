package cycle

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/score"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Host is the policy name under which the host itself refuses.
const Host = "host"

// by of rows that the host refused.
const byHost = int16(-3)

// field is what is left of a class in one cycle, after those who are asked
// afresh. It shares the class's lists by part until it must change them; its own
// are by slot.
type field struct {
	class    *class
	own      bool
	feasible int
	// rows lists the feasible slots, once somebody needs them.
	rows   []int32
	listed bool
	// Arrays of its own, kept between cycles.
	ownTotal []int64
	ownBy    []int16
	ownWhy   []framework.ReasonID
}

func (f *field) start(c *class) {
	f.class, f.own, f.listed, f.feasible = c, false, false, c.feasible
}

// totalOf is a row's total.
func (f *field) totalOf(slot int32) int64 {
	if f.own {
		return f.ownTotal[slot]
	}
	if id := f.class.part.of[slot]; id != none {
		return f.class.total[id]
	}
	return out
}

// take makes lists of its own before the first change.
func (f *field) take() {
	if f.own {
		return
	}
	c, n := f.class, len(f.class.part.of)
	f.own = true
	f.ownTotal, f.ownBy, f.ownWhy = grown(f.ownTotal, n, 0)[:n], grown(f.ownBy, n, 0)[:n], grown(f.ownWhy, n, 0)[:n]
	for slot, id := range c.part.of {
		if id == none {
			f.ownTotal[slot], f.ownBy[slot], f.ownWhy[slot] = out, empty, 0
			continue
		}
		f.ownTotal[slot], f.ownBy[slot], f.ownWhy[slot] = c.total[id], c.by[id], c.why[id]
	}
}

func (f *field) refuse(slot int32, by int16, why framework.ReasonID) {
	f.take()
	f.ownTotal[slot], f.ownBy[slot], f.ownWhy[slot] = out, by, why
	f.feasible--
}

// refuseAll refuses what is left, in the name of the host.
func (f *field) refuseAll(why framework.ReasonID) {
	for _, slot := range slices.Clone(f.list()) {
		if f.totalOf(slot) != out {
			f.refuse(slot, byHost, why)
		}
	}
}

// list returns the feasible slots.
func (f *field) list() []int32 {
	if f.listed {
		return f.rows
	}
	f.rows, f.listed = f.rows[:0], true
	for slot := range f.class.part.of {
		if f.totalOf(int32(slot)) != out {
			f.rows = append(f.rows, int32(slot))
		}
	}
	return f.rows
}

// narrowAfresh asks the predicates whose answers are not remembered.
func (d *Decider) narrowAfresh(ctx context.Context, r *run, f *field) {
	for _, i := range r.afresh {
		if f.feasible == 0 {
			return
		}
		d.narrowAfreshBy(ctx, r, f, i)
	}
}

func (d *Decider) narrowAfreshBy(ctx context.Context, r *run, f *field, i int) {
	answer, err := d.afreshAnswer(ctx, r, &r.predicates[i])
	if again := r.failsAgain(r.predicates[i].policy, 0); err == nil && again != nil {
		err = again.Err
	}
	if err == nil && answer.Ask == abi.AskSkip {
		return
	}
	rows := f.list()
	verdicts := d.verdictsFor(len(rows))
	switch {
	case err != nil:
	case answer.Ask == abi.AskRefuse:
		fill(verdicts, answer.Reason)
	default:
		err = r.profile.Predicates[i].Policy.Filter(ctx, rows, verdicts)
	}
	if err != nil {
		fill(verdicts, d.predicateFailed(r, i, Failure{Err: err, Rows: slices.Clone(rows)}))
	}
	left := rows[:0]
	for k, slot := range rows {
		if verdicts[k] == 0 {
			left = append(left, slot)
			continue
		}
		f.refuse(slot, int16(i), verdicts[k])
	}
	f.rows = left
}

func fill(verdicts []framework.ReasonID, with framework.ReasonID) {
	for i := range verdicts {
		verdicts[i] = with
	}
}

// believed is how many changes of the cluster a skip is believed for at most,
// whatever they are: the policy is told of them when it is asked again, and a
// long way behind it would have much to take in at once.
const believed = 64

// afreshAnswer asks a policy of scope set about the pod. That it skips a kind
// of pod is believed until a group changes on which that depends.
func (d *Decider) afreshAnswer(ctx context.Context, r *run, s *session) (framework.Answer, error) {
	info := s.policy.Info()
	if s.asked || info.SkipDependsOn&(abi.Pods|abi.Time) != 0 || d.forgetful[info.Identity] {
		return s.ask(ctx, r)
	}
	now := r.log.Seq()
	key := skipKey{identity: info.Identity, pod: r.pod.HashOf(info.SkipDependsOn)}
	if skip, ok := d.skips[key]; ok && now-skip.asked < believed && untouched(r.log, skip.seq, info.SkipDependsOn) {
		skip.seq = now
		d.skips[key] = skip
		return framework.Answer{Ask: abi.AskSkip}, nil
	}
	answer, err := s.ask(ctx, r)
	if err != nil || answer.Ask != abi.AskSkip {
		delete(d.skips, key)
		return answer, err
	}
	if len(d.skips) >= maxSkips {
		clear(d.skips)
	}
	d.skips[key] = skip{seq: now, asked: now}
	return answer, nil
}

// untouched says whether nothing in groups has changed since seq.
func untouched(log snapshot.Log, seq uint64, groups abi.Groups) bool {
	deltas, ok := log.Since(seq)
	if !ok {
		return false
	}
	for d := range deltas.All() {
		if d.Groups&groups != 0 {
			return false
		}
	}
	return true
}

// narrowNominated refuses rows which, with the pods for which room is being
// made there, would not take this one.
func (d *Decider) narrowNominated(ctx context.Context, r *run, f *field, nominated map[int32][]*snapshot.Pod) {
	if len(nominated) == 0 || f.feasible == 0 {
		return
	}
	slots := make([]int32, 0, len(nominated))
	for slot := range nominated {
		if f.totalOf(slot) != out {
			slots = append(slots, slot)
		}
	}
	slices.Sort(slots)
	var questions []framework.WhatIf
	for _, slot := range slots {
		row := r.log.Row(slot).With(nominated[slot]...)
		if short := row.Shortage(r.pod); short != "" {
			f.refuse(slot, byHost, d.hostReason(short, true))
			continue
		}
		questions = append(questions, framework.WhatIf{Row: slot, Deltas: addition(row, nominated[slot])})
	}
	if len(questions) > 0 {
		d.foresee(ctx, r, questions, func(k int, by int, why framework.ReasonID) {
			if slot := questions[k].Row; f.totalOf(slot) != out {
				f.refuse(slot, int16(by), why)
			}
		})
	}
	f.listed = false
}

// hostReason interns a reason of the host's own: of room, which removing pods
// makes, or another.
func (d *Decider) hostReason(text string, room bool) framework.ReasonID {
	return d.reasons.Intern(framework.Reason{Policy: Host, Text: text, Resolvable: room})
}

// addition tells in deltas that pods have come to a row.
func addition(row *snapshot.Row, pods []*snapshot.Pod) []snapshot.Delta {
	deltas := make([]snapshot.Delta, 0, 1+len(pods))
	deltas = append(deltas, snapshot.Delta{Kind: snapshot.RowUpsert, Slot: row.Slot, Groups: snapshot.UsageGroups(pods...), Row: row})
	for _, pod := range pods {
		deltas = append(deltas, snapshot.Delta{Kind: snapshot.PodPlaced, Slot: row.Slot, Groups: abi.Pods, Pod: pod})
	}
	return deltas
}

// occupied are the groups that pods change by coming or going.
const occupied = abi.NodeUsage | abi.NodePorts | abi.NodeVolumes | abi.Pods

// foresee asks each predicate that reads what pods change all the questions
// that those before it have not refused, and tells of refusals.
func (d *Decider) foresee(ctx context.Context, r *run, questions []framework.WhatIf, refused func(k, by int, why framework.ReasonID)) {
	r.questions += len(questions)
	open := make([]int, len(questions))
	for k := range open {
		open[k] = k
	}
	for i := range r.predicates {
		policy := r.profile.Predicates[i].Policy
		seer, ok := policy.(framework.WhatIfer)
		if len(open) == 0 {
			return
		}
		if !ok || policy.Info().Reads&occupied == 0 {
			continue
		}
		open = d.foreseeBy(ctx, r, i, seer, questions, open, refused)
	}
}

func (d *Decider) foreseeBy(ctx context.Context, r *run, i int, seer framework.WhatIfer, questions []framework.WhatIf, open []int,
	refused func(k, by int, why framework.ReasonID),
) []int {
	verdicts := make([]framework.ReasonID, len(open))
	ask := questions
	if len(open) != len(questions) {
		ask = make([]framework.WhatIf, len(open))
		for n, k := range open {
			ask[n] = questions[k]
		}
	}
	r.foreseen[i]++
	answer, err := r.predicates[i].ask(ctx, r)
	if again := r.failsAgain(r.predicates[i].policy, r.foreseen[i]); err == nil && again != nil {
		err = again.Err
	}
	switch {
	case err != nil:
	case answer.Ask == abi.AskSkip:
		// It has nothing to say of this pod, as in kube-scheduler's dry runs.
		return open
	case answer.Ask == abi.AskRefuse:
		fill(verdicts, answer.Reason)
	default:
		err = seer.WhatIf(ctx, ask, verdicts)
	}
	if err != nil {
		fill(verdicts, d.predicateFailed(r, i, Failure{Err: err, Foreseeing: r.foreseen[i]}))
	}
	left := open[:0]
	for n, k := range open {
		if verdicts[n] == 0 {
			left = append(left, k)
			continue
		}
		refused(k, i, verdicts[n])
	}
	return left
}

// weighAfresh corrects what a smaller feasible set changes of the remembered
// scores, and adds those of the priorities that are asked afresh.
func (d *Decider) weighAfresh(ctx context.Context, r *run, f *field) {
	if f.feasible == 0 {
		return
	}
	if f.feasible != f.class.feasible {
		f.correct()
	}
	for _, i := range r.afreshScores {
		d.weighAfreshBy(ctx, r, f, i)
	}
}

// correct follows the extremes of the rows that are left.
func (f *field) correct() {
	of := f.class.part.of
	for i := range f.class.priorities {
		p := &f.class.priorities[i]
		if p.skip || p.raws == nil || p.extremes.Min == p.extremes.Max {
			continue
		}
		rows := f.list()
		first := p.raws[of[rows[0]]]
		left := score.Extremes{Min: first, Max: first}
		for _, slot := range rows {
			raw := p.raws[of[slot]]
			left.Min, left.Max = min(left.Min, raw), max(left.Max, raw)
		}
		if !score.Moves(p.kind, p.extremes, left) {
			continue
		}
		for _, slot := range rows {
			raw := p.raws[of[slot]]
			f.ownTotal[slot] += p.weight * (score.Normalize(p.kind, raw, left) - score.Normalize(p.kind, raw, p.extremes))
		}
	}
}

func (d *Decider) weighAfreshBy(ctx context.Context, r *run, f *field, i int) {
	p := &r.profile.Priorities[i]
	answer, err := d.afreshAnswer(ctx, r, &r.priorities[i])
	if again := r.failsAgain(p.Policy, 0); err == nil && again != nil {
		err = again.Err
	}
	if err == nil && answer.Ask != abi.AskRows {
		return
	}
	rows := f.list()
	raw := d.rawFor(len(rows))
	if err == nil {
		err = p.Policy.Score(ctx, rows, raw)
	}
	if err != nil {
		d.priorityFailed(r, i, err)
		return
	}
	for k := range raw {
		raw[k] = score.Clamp(raw[k])
	}
	f.take()
	kind, extremes := p.Policy.Info().Normalize, score.Of(raw)
	for k, slot := range rows {
		f.ownTotal[slot] += p.Weight * score.Normalize(kind, raw[k], extremes)
	}
}
