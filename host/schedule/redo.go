package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	"k8s.io/apimachinery/pkg/types"
)

// Redo makes a decision again: by a profile's policies, from the cluster as it
// was, with the same luck, budgets and failures. It goes the way that the
// scheduler goes, preemption included.
func Redo(ctx context.Context, p *framework.Profile, reasons *framework.Reasons, log snapshot.Log, was *Trace) (Trace, error) {
	starts, err := was.starts(log)
	if err != nil {
		return Trace{}, err
	}
	d := cycle.New(cycle.Options{Reasons: reasons})
	in := cycle.Input{
		Profile: p, Log: log, Pod: was.Pod, Now: was.Now, Seed: was.Seed, Nominated: was.Nominated, Failed: failedThen(was.Failures, log.Slots()),
	}
	t := *was
	t.conclude(exclude(d, d.Decide(ctx, in), was.Excluded), log, reasons)
	switch {
	case t.Outcome != Refused:
		t.Preemption = nil
	case t.Preemption != nil:
		t.seek(ctx, d, log, starts)
	}
	t.Failures = failuresOf(d.Failures())
	return t, ctx.Err()
}

var errThen = errors.New("it failed then")

// failedThen makes policies fail again where they did.
func failedThen(list []Failure, slots int32) []cycle.Failure {
	all := make([]cycle.Failure, len(list))
	for i, f := range list {
		all[i] = cycle.Failure{Policy: f.Policy, Err: errThen, Rows: f.Rows.within(slots), Foreseeing: f.Foreseeing}
	}
	return all
}

// exclude picks again what was picked where the pod's volumes could not be had.
func exclude(d *cycle.Decider, decision cycle.Decision, excluded map[int32]string) cycle.Decision {
	for tried := 0; decision.Slot >= 0; tried++ {
		if tried == maxOtherRows {
			return d.GiveUp(noVolumes)
		}
		why, ok := excluded[decision.Slot]
		if !ok {
			break
		}
		decision = d.Again(decision.Slot, why)
	}
	return decision
}

// conclude makes of a past decision what came out this time, without its preemption.
func (t *Trace) conclude(decision cycle.Decision, log snapshot.Log, reasons *framework.Reasons) {
	was := t.Outcome
	t.Node, t.Made, t.Message = "", "", ""
	t.Total, t.Feasible, t.Nodes, t.Tied = decision.Total, decision.Feasible, decision.Nodes, decision.Tied
	if decision.Slot >= 0 {
		t.Outcome, t.Node = Placed, log.Row(decision.Slot).Node.Name
		if was == Provisions {
			t.Outcome = Provisions // whether volumes must be made is no policy's affair
		}
		return
	}
	t.Outcome, t.Message = Refused, refusal(decision, reasons)
	if len(decision.Failures) > 0 {
		t.Outcome, t.Message = Failed, failure(decision.Failures)+"; "+t.Message
	}
}

// starts are when pods had started, as the decision reckoned with them.
func (t *Trace) starts(log snapshot.Log) (map[types.UID]int64, error) {
	if t.Preemption == nil {
		return nil, nil
	}
	return t.Preemption.Started.Of(log)
}

// seek looks for room once more.
func (t *Trace) seek(ctx context.Context, d *cycle.Decider, log snapshot.Log, starts map[types.UID]int64) {
	room := cycle.Room{Budgets: t.Preemption.Budgets, Nominated: t.Nominated, Started: func(p *snapshot.Pod) int64 {
		if at, ok := starts[p.UID()]; ok {
			return at
		}
		return cycle.StartOf(p.Object)
	}}
	t.Preemption = &Preemption{Budgets: t.Preemption.Budgets, Started: t.Preemption.Started}
	if found, ok := d.Preempt(ctx, room); ok {
		t.Made, t.Preemption.Victims = log.Row(found.Slot).Node.Name, found.Victims
	}
}

// Differences tells what of two decisions about the same pod is not the same,
// empty if all is.
func Differences(was, is *Trace) []string {
	var all []string
	tell := func(what string, a, b any) {
		if a != b {
			all = append(all, fmt.Sprintf("%s: %v then, %v now", what, shown(a), shown(b)))
		}
	}
	tell("outcome", was.Outcome, is.Outcome)
	tell("node", was.Node, is.Node)
	tell("total", was.Total, is.Total)
	tell("nodes", was.Nodes, is.Nodes)
	tell("nodes that could take it", was.Feasible, is.Feasible)
	tell("nodes equal", was.Tied, is.Tied)
	if !strings.Contains(was.Message, is.Message) {
		tell("message", was.Message, is.Message)
	}
	if was.Preemption == nil {
		return all // nothing says what it would have reckoned with
	}
	tell("room made on", was.Made, is.Made)
	if is.Preemption != nil && was.Made == is.Made {
		tell("preempted", victims(was.Preemption), victims(is.Preemption))
	}
	return all
}

func shown(v any) any {
	if v == "" || v == Outcome("") {
		return "none"
	}
	return v
}

// victims names them in order, with the budgets that they break.
func victims(p *Preemption) string {
	names := make([]string, len(p.Victims))
	for i, v := range p.Victims {
		names[i] = v.Pod.Object.Namespace + "/" + v.Pod.Object.Name
		if len(v.Breaks) > 0 {
			names[i] += " (against " + strings.Join(v.Breaks, ", ") + ")"
		}
	}
	return strings.Join(names, ", ")
}
