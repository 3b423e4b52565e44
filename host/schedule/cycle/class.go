package cycle

import (
	"context"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/score"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// out is the total of a row that is not feasible.
const out = int64(-1 << 63)

// Values of class.by besides the index of a predicate.
const (
	admitted = int16(-1)
	empty    = int16(-2)
)

// classKey finds what was put together for one kind of pod.
type classKey struct {
	profile *framework.Profile
	pod     uint64
}

// class is a profile's remembered columns put together for one kind of pod.
type class struct {
	key    classKey
	groups abi.Groups
	// seq is the log's position up to which it stands; built is false while it
	// must be put together from scratch.
	seq   uint64
	built bool

	predicates []*column
	priorities []scored

	// by and why tell for each slot which predicate refused it first, and its
	// reason; total is out for those.
	by       []int16
	why      []framework.ReasonID
	total    []int64
	feasible int
	// tops sum up total and by, block by block.
	tops []top
}

// scored is a priority's part in a class.
type scored struct {
	*column
	index  int
	weight int64
	kind   abi.Normalization
	// raws are the feasible rows' scores where the extremes count.
	raws         []int64
	extremes     score.Extremes
	atMin, atMax int
	skip         bool
}

func (c *class) bytes() int64 {
	n := int64(2*cap(c.by) + 4*cap(c.why) + 8*cap(c.total) + 16*cap(c.tops) + 256)
	for _, p := range c.predicates {
		n += p.bytes()
	}
	for i := range c.priorities {
		n += c.priorities[i].bytes() + int64(8*cap(c.priorities[i].raws))
	}
	return n
}

// grow makes room for n slots.
func (c *class) grow(n int) {
	if len(c.by) >= n {
		return
	}
	c.by = grown(c.by, n, empty)
	c.why = grown(c.why, n, 0)
	c.total = grown(c.total, n, out)
	for i := range c.priorities {
		if p := &c.priorities[i]; p.kind != abi.NormalizeNone {
			p.raws = grown(p.raws, n, 0)
		}
	}
}

// refresh brings the class up to date with the log: what changed is asked again.
func (d *Decider) refresh(ctx context.Context, r *run, c *class) {
	d.collectDirty(r, c)
	c.seq = r.log.Seq()
	for _, col := range c.predicates {
		col.sync(r.log)
	}
	for i := range c.priorities {
		c.priorities[i].sync(r.log)
	}
	if len(d.dirty) == 0 && c.built {
		return
	}
	for _, slot := range d.dirty {
		c.drop(slot)
	}
	rows := d.rows[:0]
	for _, slot := range d.dirty {
		if r.log.Row(slot) == nil {
			c.by[slot] = empty
			continue
		}
		rows = append(rows, slot)
	}
	d.rows = rows
	rows = d.narrow(ctx, r, c, rows)
	moved := d.weigh(ctx, r, c, rows)
	c.retop(d.dirty, moved)
	c.built = !r.tainted
}

// collectDirty lists the slots that changed since the class was put together.
func (d *Decider) collectDirty(r *run, c *class) {
	n := int(r.log.Slots())
	c.grow(n)
	d.dirty = d.dirty[:0]
	var deltas snapshot.Deltas
	known := c.built
	if known {
		deltas, known = r.log.Since(c.seq)
	}
	if !known {
		for slot := range int32(n) {
			d.dirty = append(d.dirty, slot)
		}
		return
	}
	d.newMarks(n)
	for delta := range deltas.All() {
		if delta.Kind > rowRemove || d.marked(delta.Slot) {
			continue
		}
		if delta.Kind == rowRemove || delta.Groups&c.groups != 0 || c.by[delta.Slot] == empty {
			d.mark(delta.Slot)
			d.dirty = append(d.dirty, delta.Slot)
		}
	}
}

// drop takes a slot out of the feasible ones.
func (c *class) drop(slot int32) {
	if c.total[slot] == out {
		return
	}
	c.total[slot] = out
	c.feasible--
	for i := range c.priorities {
		p := &c.priorities[i]
		if p.raws == nil || p.skip {
			continue
		}
		if p.raws[slot] == p.extremes.Max {
			p.atMax--
		}
		if p.raws[slot] == p.extremes.Min {
			p.atMin--
		}
	}
}

// narrow asks the remembered predicates in order; rows ends as those that all admit.
func (d *Decider) narrow(ctx context.Context, r *run, c *class, rows []int32) []int32 {
	for k, i := range r.remembered {
		if len(rows) == 0 {
			break
		}
		rows = d.narrowBy(ctx, r, c, c.predicates[k], i, rows)
	}
	for _, slot := range rows {
		c.by[slot], c.why[slot] = admitted, 0
	}
	return rows
}

func (d *Decider) narrowBy(ctx context.Context, r *run, c *class, col *column, i int, rows []int32) []int32 {
	answer, err := d.answer(ctx, r, &r.predicates[i], col)
	again := r.failsAgain(r.predicates[i].policy, 0)
	if err == nil && again == nil && answer.Ask == abi.AskSkip {
		return rows
	}
	if err == nil && again == nil && answer.Ask == abi.AskRefuse {
		return refuseAll(c, i, answer.Reason, rows)
	}
	if err == nil && answer.Ask == abi.AskRows {
		err = d.fillVerdicts(ctx, r, i, col, rows)
	}
	if err == nil && again != nil {
		err = again.Err
		col.lose(again.Rows)
	}
	failed := framework.ReasonID(0)
	if err != nil {
		failed = d.predicateFailed(r, i, Failure{Err: err, Rows: col.unknown(rows)})
	}
	left := rows[:0]
	for _, slot := range rows {
		verdict := col.verdicts[slot]
		if verdict == unknownVerdict {
			verdict = failed
		}
		if verdict == 0 {
			left = append(left, slot)
			continue
		}
		c.by[slot], c.why[slot] = int16(i), verdict
	}
	return left
}

func refuseAll(c *class, i int, why framework.ReasonID, rows []int32) []int32 {
	for _, slot := range rows {
		c.by[slot], c.why[slot] = int16(i), why
	}
	return rows[:0]
}

// answer asks a policy about the pod as such, or remembers what it said.
func (d *Decider) answer(ctx context.Context, r *run, s *session, col *column) (framework.Answer, error) {
	if col.answered {
		return col.answer, nil
	}
	answer, err := s.ask(ctx, r)
	if err == nil {
		col.answer, col.answered = answer, true
	}
	return answer, err
}

// fillVerdicts asks about those of rows whose cell is unknown.
func (d *Decider) fillVerdicts(ctx context.Context, r *run, i int, col *column, rows []int32) error {
	ask := d.asked[:0]
	for _, slot := range rows {
		if col.verdicts[slot] == unknownVerdict {
			ask = append(ask, slot)
		}
	}
	d.asked = ask
	if len(ask) == 0 {
		return nil
	}
	if _, err := r.predicates[i].ask(ctx, r); err != nil {
		return err
	}
	verdicts := d.verdictsFor(len(ask))
	if err := r.profile.Predicates[i].Policy.Filter(ctx, ask, verdicts); err != nil {
		return err
	}
	for k, slot := range ask {
		col.verdicts[slot] = verdicts[k]
	}
	return nil
}

// weigh scores rows that have become feasible, and totals what moved. It says
// whether the totals of other rows may have.
func (d *Decider) weigh(ctx context.Context, r *run, c *class, rows []int32) (moved bool) {
	for k := range c.priorities {
		moved = d.weighBy(ctx, r, c, &c.priorities[k], rows) || moved
	}
	c.feasible += len(rows)
	for _, slot := range rows {
		c.total[slot] = c.sum(slot)
	}
	if !moved {
		return false
	}
	for slot, total := range c.total {
		if total != out {
			c.total[slot] = c.sum(int32(slot))
		}
	}
	return true
}

// weighBy scores rows by one priority and says whether others' scores moved.
func (d *Decider) weighBy(ctx context.Context, r *run, c *class, p *scored, rows []int32) bool {
	answer, err := d.answer(ctx, r, &r.priorities[p.index], p.column)
	if again := r.failsAgain(r.priorities[p.index].policy, 0); err == nil && again != nil {
		err = again.Err
	}
	was := p.skip
	p.skip = err != nil || answer.Ask != abi.AskRows
	if err == nil && !p.skip {
		err = d.fillRaw(ctx, r, p, rows)
		p.skip = err != nil
	}
	if err != nil {
		d.priorityFailed(r, p.index, err)
	}
	if p.skip || p.raws == nil {
		// Rows that were scored before must not keep what these do not get.
		return p.skip != was
	}
	before := p.extremes
	for _, slot := range rows {
		p.raws[slot] = p.raw[slot]
	}
	c.extremes(p, rows)
	return score.Moves(p.kind, before, p.extremes)
}

func (d *Decider) fillRaw(ctx context.Context, r *run, p *scored, rows []int32) error {
	ask := d.asked[:0]
	for _, slot := range rows {
		if p.raw[slot] == unknownRaw {
			ask = append(ask, slot)
		}
	}
	d.asked = ask
	if len(ask) == 0 {
		return nil
	}
	if _, err := r.priorities[p.index].ask(ctx, r); err != nil {
		return err
	}
	raw := d.rawFor(len(ask))
	if err := r.profile.Priorities[p.index].Policy.Score(ctx, ask, raw); err != nil {
		return err
	}
	for k, slot := range ask {
		p.raw[slot] = score.Clamp(raw[k])
	}
	return nil
}

// extremes takes further rows into a priority's extremes, and looks at all the
// feasible ones only where the last row that held one has gone.
func (c *class) extremes(p *scored, rows []int32) {
	if c.feasible > 0 && p.atMax > 0 && p.atMin > 0 {
		for _, slot := range rows {
			p.take(p.raws[slot])
		}
		return
	}
	first := true
	take := func(v int64) {
		if first {
			p.extremes, p.atMin, p.atMax, first = score.Extremes{Min: v, Max: v}, 1, 1, false
			return
		}
		p.take(v)
	}
	for _, slot := range rows {
		take(p.raws[slot])
	}
	for slot, total := range c.total {
		if total != out {
			take(p.raws[slot])
		}
	}
}

func (p *scored) take(v int64) {
	switch {
	case v > p.extremes.Max:
		p.extremes.Max, p.atMax = v, 1
	case v == p.extremes.Max:
		p.atMax++
	}
	switch {
	case v < p.extremes.Min:
		p.extremes.Min, p.atMin = v, 1
	case v == p.extremes.Min:
		p.atMin++
	}
}

// sum is the total of a feasible slot.
func (c *class) sum(slot int32) int64 {
	var total int64
	for i := range c.priorities {
		p := &c.priorities[i]
		if !p.skip {
			total += p.weight * score.Normalize(p.kind, p.raw[slot], p.extremes)
		}
	}
	return total
}
