package cycle

import (
	"context"
	"fmt"

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
}

// Verdicts are one predicate's.
type Verdicts struct {
	Policy  string
	Group   string
	Skipped bool
	// Reasons holds 0 where the row is admitted.
	Reasons []framework.ReasonID
	Err     error
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
	t := &Table{}
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
		t.filter(ctx, &p.Predicates[i], reasons, log, pod, now)
	}
	for i := range p.Priorities {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.score(ctx, &p.Priorities[i], log, pod, now)
	}
	return t, nil
}

func (t *Table) filter(ctx context.Context, p *framework.ProfilePredicate, reasons *framework.Reasons, log snapshot.Log, pod *snapshot.Pod, now int64) {
	v := Verdicts{Policy: p.Policy.Info().Name, Group: p.Group, Reasons: make([]framework.ReasonID, len(t.Rows))}
	answer, err := p.Policy.Pod(ctx, log, pod, now)
	switch {
	case err != nil:
	case answer.Ask == abi.AskSkip:
		v.Skipped = true
	case answer.Ask == abi.AskRefuse:
		fill(v.Reasons, answer.Reason)
	default:
		err = p.Policy.Filter(ctx, t.Rows, v.Reasons)
	}
	if err != nil {
		v.Err = fmt.Errorf("ask %s: %w", v.Policy, err)
		failed := framework.ReasonID(0)
		if !p.FailOpen {
			failed = reasons.Intern(framework.Reason{Policy: v.Policy, Text: "policy " + v.Policy + " failed"})
		}
		fill(v.Reasons, failed)
	}
	for i, reason := range v.Reasons {
		t.Feasible[i] = t.Feasible[i] && reason == 0
	}
	t.Predicates = append(t.Predicates, v)
}

func (t *Table) score(ctx context.Context, p *framework.ProfilePriority, log snapshot.Log, pod *snapshot.Pod, now int64) {
	s := Scores{Policy: p.Policy.Info().Name, Weight: p.Weight, Raw: make([]int64, len(t.Rows)), Normalized: make([]int64, len(t.Rows))}
	defer func() { t.Priorities = append(t.Priorities, s) }()
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
		return
	}
	for i := range raw {
		raw[i] = score.Clamp(raw[i])
	}
	kind, extremes := p.Policy.Info().Normalize, score.Of(raw)
	for k, i := range at {
		s.Raw[i] = raw[k]
		s.Normalized[i] = score.Normalize(kind, raw[k], extremes)
		t.Total[i] += p.Weight * s.Normalized[i]
	}
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
