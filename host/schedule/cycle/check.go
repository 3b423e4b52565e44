package cycle

import (
	"context"
	"strconv"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/score"
)

// Difference is a remembered answer that another instance of the policy, built
// from the same rows, did not give.
type Divergence struct {
	Policy   string
	Identity [32]byte
	Pod      string
	Node     string
	// Remembered and Again are the two answers: reasons, or raw scores.
	Remembered, Again string
}

// checkRows bounds what one check asks.
const checkRows = 1024

// check asks a second instance for a sample of remembered answers: each cycle
// one policy in a thousand, so that about one answer in a thousand is checked.
func (d *Decider) check(ctx context.Context, r *run, c *class) {
	n := len(c.predicates) + len(c.priorities)
	pick := splitmix(r.seed ^ 0xa5a5a5a5)
	if n == 0 || pick%1000 >= uint64(n) {
		return
	}
	which := int(pick % 1000)
	from := int32((pick >> 32) % uint64(max(r.log.Slots(), 1)))
	if which < len(c.predicates) {
		d.checkPredicate(ctx, r, c, which, from)
		return
	}
	d.checkPriority(ctx, r, &c.priorities[which-len(c.predicates)], c, from)
}

// sample lists up to checkRows slots from a start on for which known holds.
func (d *Decider) sample(r *run, from int32, n int, known func(slot int32) bool) []int32 {
	rows := d.asked[:0]
	for k := 0; k < n && len(rows) < checkRows; k++ {
		slot := (from + int32(k)) % int32(n)
		if r.log.Row(slot) != nil && known(slot) {
			rows = append(rows, slot)
		}
	}
	d.asked = rows
	return rows
}

func (d *Decider) checkPredicate(ctx context.Context, r *run, c *class, k int, from int32) {
	p, col := &r.profile.Predicates[r.remembered[k]], c.predicates[k]
	if p.Verifier == nil || !col.answered {
		return
	}
	answer, err := p.Verifier.Pod(ctx, r.log, r.pod, r.now)
	if err != nil {
		return
	}
	if answer != col.answer {
		d.differs(r, p.Policy.Info(), -1, askNames[col.answer.Ask&3], askNames[answer.Ask&3])
		return
	}
	if answer.Ask != abi.AskRows {
		return
	}
	rows := d.sample(r, from, int(r.log.Slots()), func(slot int32) bool { return col.verdicts[col.part.of[slot]] != unknownVerdict })
	verdicts := d.verdictsFor(len(rows))
	if len(rows) == 0 || p.Verifier.Filter(ctx, rows, verdicts) != nil {
		return
	}
	for i, slot := range rows {
		if known := col.verdicts[col.part.of[slot]]; verdicts[i] != known {
			d.differs(r, p.Policy.Info(), slot, d.verdictText(known), d.verdictText(verdicts[i]))
			return
		}
	}
}

func (d *Decider) checkPriority(ctx context.Context, r *run, p *scored, c *class, from int32) {
	of := &r.profile.Priorities[p.index]
	if of.Verifier == nil || !p.answered {
		return
	}
	answer, err := of.Verifier.Pod(ctx, r.log, r.pod, r.now)
	if err != nil {
		return
	}
	if answer != p.answer {
		d.differs(r, of.Policy.Info(), -1, askNames[p.answer.Ask&3], askNames[answer.Ask&3])
		return
	}
	if answer.Ask != abi.AskRows {
		return
	}
	rows := d.sample(r, from, int(r.log.Slots()), func(slot int32) bool { return p.raw[p.part.of[slot]] != unknownRaw })
	raw := d.rawFor(len(rows))
	if len(rows) == 0 || of.Verifier.Score(ctx, rows, raw) != nil {
		return
	}
	for i, slot := range rows {
		if known := p.raw[p.part.of[slot]]; score.Clamp(raw[i]) != known {
			d.differs(r, of.Policy.Info(), slot, number(known), number(raw[i]))
			return
		}
	}
}

var askNames = [4]string{"asks rows", "skips", "refuses all", "?"}

func (d *Decider) verdictText(id framework.ReasonID) string {
	if id == 0 {
		return "admits"
	}
	return d.reasons.Get(id).Text
}

// differs ends remembering for a policy: nothing of it stands any more.
func (d *Decider) differs(r *run, info *framework.Info, slot int32, was, now string) {
	d.forgetful[info.Identity] = true
	r.tainted = true
	// What this class knows is from remembered answers; the next cycle puts
	// another one together, in which the policy is asked each time.
	d.stale = true
	if d.onDivergence == nil {
		return
	}
	diff := Divergence{Policy: info.Name, Identity: info.Identity, Remembered: was, Again: now,
		Pod: r.pod.Object.Namespace + "/" + r.pod.Object.Name}
	if row := r.log.Row(slot); row != nil {
		diff.Node = row.Node.Name
	}
	d.onDivergence(diff)
}

func number(v int64) string { return strconv.FormatInt(v, 10) }
