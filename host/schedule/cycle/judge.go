package cycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/score"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Table is everything that a profile says of a pod: each predicate of each
// row, each priority of each feasible one. It is derived straight from the
// policies, remembers nothing and leaves nothing out: what explains a
// decision, and what a Decider must agree with.
type Table struct {
	// Rows are the slots that were looked at; the lists below are by index in it.
	Rows       []int32
	Predicates []Verdicts
	Priorities []Scores
	Feasible   []bool
	Total      []int64

	// verdicts and scores are of the policies that have an identity.
	verdicts map[[32]byte]*Verdicts
	scores   map[[32]byte]*Scores
}

// Verdicts are one predicate's.
type Verdicts struct {
	Policy  string
	Group   string
	Skipped bool
	// Words say why the pod is refused as such, where the policy does.
	Words string
	// Reasons holds 0 where the row is admitted.
	Reasons []framework.ReasonID
	Err     error
}

// Text is why the i-th row is refused.
func (v *Verdicts) Text(reasons *framework.Reasons, i int) string {
	return cmp.Or(v.Words, reasons.Get(v.Reasons[i]).Text)
}

// Scores are one priority's, for the feasible rows.
type Scores struct {
	Policy     string
	Weight     int64
	Skipped    bool
	Raw        []int64
	Normalized []int64
	Err        error
}

// Judge asks all of a profile's policies about a pod. Order is that of the profile.
func Judge(ctx context.Context, p *framework.Profile, reasons *framework.Reasons, log snapshot.Log, pod *snapshot.Pod, now int64) (*Table, error) {
	return JudgeBeside(ctx, p, reasons, log, pod, now, &Table{})
}

// JudgeBeside is Judge for a profile that has policies in common with one that
// has judged the same pod and state: what these said is not asked again.
func JudgeBeside(ctx context.Context, p *framework.Profile, reasons *framework.Reasons, log snapshot.Log, pod *snapshot.Pod, now int64, other *Table) (*Table, error) {
	t := &Table{verdicts: map[[32]byte]*Verdicts{}, scores: map[[32]byte]*Scores{}}
	for slot := range log.Slots() {
		if log.Row(slot) != nil {
			t.Rows = append(t.Rows, slot)
		}
	}
	t.Feasible, t.Total = make([]bool, len(t.Rows)), make([]int64, len(t.Rows))
	for i := range t.Feasible {
		t.Feasible[i] = true
	}
	for i := range p.Predicates {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.filter(ctx, &p.Predicates[i], reasons, log, pod, now, other)
	}
	if !slices.Equal(t.Feasible, other.Feasible) {
		other = &Table{} // scores are of the feasible rows
	}
	for i := range p.Priorities {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.score(ctx, &p.Priorities[i], log, pod, now, other)
	}
	return t, nil
}

func (t *Table) filter(ctx context.Context, p *framework.ProfilePredicate, reasons *framework.Reasons, log snapshot.Log, pod *snapshot.Pod, now int64, other *Table) {
	info := p.Policy.Info()
	v := other.verdicts[info.Identity]
	if v == nil || v.Policy != info.Name {
		v = t.asked(ctx, p, reasons, log, pod, now)
	}
	if v.Err == nil && info.Identity != ([32]byte{}) {
		t.verdicts[info.Identity] = v
	}
	for i, reason := range v.Reasons {
		t.Feasible[i] = t.Feasible[i] && reason == 0
	}
	t.Predicates = append(t.Predicates, *v)
	t.Predicates[len(t.Predicates)-1].Group = p.Group
}

// asked is what a predicate says of all rows.
func (t *Table) asked(ctx context.Context, p *framework.ProfilePredicate, reasons *framework.Reasons, log snapshot.Log, pod *snapshot.Pod, now int64) *Verdicts {
	v := &Verdicts{Policy: p.Policy.Info().Name, Reasons: make([]framework.ReasonID, len(t.Rows))}
	answer, err := p.Policy.Pod(ctx, log, pod, now)
	switch {
	case err != nil:
	case answer.Ask == abi.AskSkip:
		v.Skipped = true
	case answer.Ask == abi.AskRefuse:
		v.Words = answer.Words
		fill(v.Reasons, answer.Reason)
	default:
		err = p.Policy.Filter(ctx, t.Rows, v.Reasons)
	}
	if err != nil {
		v.Err = fmt.Errorf("ask %s: %w", v.Policy, err)
		failed := framework.ReasonID(0)
		if !p.FailOpen {
			failed = reasons.Aside().Intern(framework.Reason{Policy: v.Policy, Text: "policy " + v.Policy + " failed"})
		}
		fill(v.Reasons, failed)
	}
	return v
}

func (t *Table) score(ctx context.Context, p *framework.ProfilePriority, log snapshot.Log, pod *snapshot.Pod, now int64, other *Table) {
	info := p.Policy.Info()
	s := other.scores[info.Identity]
	if s == nil || s.Policy != info.Name {
		s = t.scored(ctx, p, log, pod, now)
	}
	if s.Err == nil && info.Identity != ([32]byte{}) {
		t.scores[info.Identity] = s
	}
	t.Priorities = append(t.Priorities, *s)
	t.Priorities[len(t.Priorities)-1].Weight = p.Weight
	for i, normalized := range s.Normalized {
		t.Total[i] += p.Weight * normalized
	}
}

// scored is what a priority says of the feasible rows.
func (t *Table) scored(ctx context.Context, p *framework.ProfilePriority, log snapshot.Log, pod *snapshot.Pod, now int64) *Scores {
	s := &Scores{Policy: p.Policy.Info().Name, Raw: make([]int64, len(t.Rows)), Normalized: make([]int64, len(t.Rows))}
	var rows []int32
	var at []int
	for i, feasible := range t.Feasible {
		if feasible {
			rows, at = append(rows, t.Rows[i]), append(at, i)
		}
	}
	answer, err := p.Policy.Pod(ctx, log, pod, now)
	raw := make([]int64, len(rows))
	if err == nil && answer.Ask == abi.AskRows && len(rows) > 0 {
		err = p.Policy.Score(ctx, rows, raw)
	}
	if err != nil {
		s.Err = fmt.Errorf("ask %s: %w", s.Policy, err)
		if p.FailClosed {
			clear(t.Feasible)
		}
	}
	s.Skipped = err != nil || answer.Ask != abi.AskRows || len(rows) == 0
	if s.Skipped {
		return s
	}
	for i := range raw {
		raw[i] = score.Clamp(raw[i])
	}
	kind, extremes := p.Policy.Info().Normalize, score.Of(raw)
	for k, i := range at {
		s.Raw[i] = raw[k]
		s.Normalized[i] = score.Normalize(kind, raw[k], extremes)
	}
	return s
}

// Best returns the rows with the highest total, and that total.
func (t *Table) Best() (rows []int32, total int64) {
	total = out
	for i, feasible := range t.Feasible {
		switch {
		case !feasible || t.Total[i] < total:
		case t.Total[i] > total:
			rows, total = append(rows[:0], t.Rows[i]), t.Total[i]
		default:
			rows = append(rows, t.Rows[i])
		}
	}
	if len(rows) == 0 {
		return nil, 0
	}
	return rows, total
}

// First returns the index of the predicate which refuses the i-th row first,
// in the profile's order, and its reason; -1 for none.
func (t *Table) First(i int) (int, framework.ReasonID) {
	for k := range t.Predicates {
		if reason := t.Predicates[k].Reasons[i]; reason != 0 {
			return k, reason
		}
	}
	return -1, 0
}

// Pick returns the slot that a Decider picks with a seed, -1 for none.
func (t *Table) Pick(seed uint64) int32 {
	best, _ := t.Best()
	if len(best) == 0 {
		return -1
	}
	return best[splitmix(seed)%uint64(len(best))]
}
