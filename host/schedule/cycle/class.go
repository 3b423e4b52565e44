package cycle

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/score"
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

// class is a profile's remembered columns put together for one kind of pod. Its
// lists are by part: rows that are equal in all that the profile's policies read for
// such a pod share what becomes of them.
type class struct {
	key  classKey
	part *partition
	// same are partitions of a single part, which divide nothing: as soon as one
	// does, or all rows change alike, the class is put together anew.
	same []single
	// placed are columns of which labels matter, as they stood then.
	placed []placed
	// at is the place in the partition's journal of touched parts up to which it
	// stands; built is false while it must be put together from scratch.
	at    uint64
	built bool

	predicates []*column
	priorities []scored

	// by and why tell for each part which predicate refused it first, and its
	// reason; total is out for those. size is how many rows it was counted with.
	by    []int16
	why   []framework.ReasonID
	total []int64
	size  []int32
	// feasible counts rows.
	feasible int
	// tops sum up total, block by block.
	tops []top
}

// placed is where a column was when the class was divided, and what its labels were.
type placed struct {
	col     *column
	part    *partition
	version uint64
}

// single is a partition of which all rows are one part, that of the hash.
type single struct {
	part *partition
	hash uint64
}

// scored is a priority's part in a class.
type scored struct {
	*column
	index  int
	weight int64
	kind   abi.Normalization
	// raws are the feasible parts' scores where the extremes count.
	raws         []int64
	extremes     score.Extremes
	atMin, atMax int
	skip         bool
}

func (c *class) bytes() int64 {
	n := int64(2*cap(c.by) + 4*cap(c.why) + 8*cap(c.total) + 4*cap(c.size) + 16*cap(c.tops) + 256)
	for _, p := range c.predicates {
		n += p.bytes()
	}
	for i := range c.priorities {
		n += c.priorities[i].bytes() + int64(8*cap(c.priorities[i].raws))
	}
	return n
}

// grow makes room for n parts.
func (c *class) grow(n int) {
	c.by = grown(c.by, n, empty)
	c.why = grown(c.why, n, 0)
	c.total = grown(c.total, n, out)
	c.size = grown(c.size, n, 0)
	for i := range c.priorities {
		if p := &c.priorities[i]; p.kind != abi.NormalizeNone {
			p.raws = grown(p.raws, n, 0)
		}
	}
}

// stands says whether the class's partition still is the right one.
func (c *class) stands() bool {
	for _, one := range c.same {
		if only := one.part.only(); only == none || one.part.parts[only].hash != one.hash {
			return false
		}
	}
	for _, p := range c.placed {
		if p.col.part != p.part || p.col.version() != p.version {
			return false
		}
	}
	return true
}

// cell is where a column has the answer for a part of the class.
func (c *class) cell(col *column, id int32) int32 {
	if col.part == c.part {
		return id
	}
	return col.part.of[c.part.parts[id].first]
}

// refresh brings the class up to date with the log: what changed is asked again.
func (d *Decider) refresh(ctx context.Context, r *run, c *class) {
	d.collectDirty(c)
	c.at = c.part.touched.end()
	for _, col := range c.predicates {
		col.sync()
	}
	for i := range c.priorities {
		c.priorities[i].sync()
	}
	if len(d.dirty) == 0 && c.built {
		return
	}
	ids := d.ids[:0]
	for _, id := range d.dirty {
		c.drop(id)
		if c.size[id] = c.part.parts[id].size; c.size[id] == 0 {
			c.by[id] = empty
			continue
		}
		ids = append(ids, id)
	}
	d.ids = ids
	ids = d.narrow(ctx, r, c, ids)
	moved := d.weigh(ctx, r, c, ids)
	c.retop(d.dirty, moved)
	c.built = !r.tainted
}

// collectDirty lists the parts that changed since the class was put together.
func (d *Decider) collectDirty(c *class) {
	n := len(c.part.parts)
	c.grow(n)
	d.dirty = d.dirty[:0]
	touched, known := c.part.touched.since(c.at)
	if !known || !c.built {
		for id := range int32(n) {
			if c.part.parts[id].size > 0 || c.by[id] != empty {
				d.dirty = append(d.dirty, id)
			}
		}
		return
	}
	d.newMarks(n)
	for _, id := range touched {
		if !d.marked(id) {
			d.mark(id)
			d.dirty = append(d.dirty, id)
		}
	}
}

// drop takes a part out of the feasible ones.
func (c *class) drop(id int32) {
	if c.total[id] == out {
		return
	}
	c.total[id] = out
	c.feasible -= int(c.size[id])
	for i := range c.priorities {
		p := &c.priorities[i]
		if p.raws == nil || p.skip {
			continue
		}
		if p.raws[id] == p.extremes.Max {
			p.atMax--
		}
		if p.raws[id] == p.extremes.Min {
			p.atMin--
		}
	}
}

// narrow asks the remembered predicates in order; ids ends as the parts that all admit.
func (d *Decider) narrow(ctx context.Context, r *run, c *class, ids []int32) []int32 {
	for k, i := range r.remembered {
		if len(ids) == 0 {
			break
		}
		ids = d.narrowBy(ctx, r, c, c.predicates[k], i, ids)
	}
	for _, id := range ids {
		c.by[id], c.why[id] = admitted, 0
	}
	return ids
}

func (d *Decider) narrowBy(ctx context.Context, r *run, c *class, col *column, i int, ids []int32) []int32 {
	answer, err := d.answer(ctx, r, &r.predicates[i], col)
	again := r.failsAgain(r.predicates[i].policy, 0)
	if err == nil && again == nil && answer.Ask == abi.AskSkip {
		return ids
	}
	if err == nil && again == nil && answer.Ask == abi.AskRefuse {
		return refuseAll(c, i, answer.Reason, ids)
	}
	if err == nil && answer.Ask == abi.AskRows {
		err = d.fillVerdicts(ctx, r, i, c, col, ids)
	}
	if err == nil && again != nil {
		err = again.Err
		col.lose(again.Rows)
	}
	failed := framework.ReasonID(0)
	if err != nil {
		failed = d.predicateFailed(r, i, Failure{Err: err, Rows: c.unknown(col, ids)})
	}
	return c.admittedBy(col, i, ids, failed)
}

// admittedBy are the parts that the policy admits; failed is what those get that have
// no verdict.
func (c *class) admittedBy(col *column, i int, ids []int32, failed framework.ReasonID) []int32 {
	if only := col.part.only(); only != none && col.verdicts[only] == 0 {
		return ids
	}
	left := ids[:0]
	for _, id := range ids {
		verdict := col.verdicts[c.cell(col, id)]
		if verdict == unknownVerdict {
			verdict = failed
		}
		if verdict == 0 {
			left = append(left, id)
			continue
		}
		c.by[id], c.why[id] = int16(i), verdict
	}
	return left
}

// unknown lists the rows of parts that have no verdict.
func (c *class) unknown(col *column, ids []int32) []int32 {
	var list []int32
	for _, id := range ids {
		if col.verdicts[c.cell(col, id)] == unknownVerdict {
			list = c.part.members(list, id)
		}
	}
	slices.Sort(list)
	return list
}

func refuseAll(c *class, i int, why framework.ReasonID, ids []int32) []int32 {
	for _, id := range ids {
		c.by[id], c.why[id] = int16(i), why
	}
	return ids[:0]
}

// answer asks a policy about the pod as such, or remembers what it said.
func (d *Decider) answer(ctx context.Context, r *run, s *session, col *column) (framework.Answer, error) {
	if col.answered {
		return col.answer, nil
	}
	answer, err := s.ask(ctx, r)
	if err == nil && answer.Ask == abi.AskRows {
		col.depends, err = dependsOf(ctx, s.policy)
	}
	if err == nil {
		col.answer, col.answered = answer, true
	}
	return answer, err
}

// fillVerdicts asks about one row of each part whose cell is unknown.
func (d *Decider) fillVerdicts(ctx context.Context, r *run, i int, c *class, col *column, ids []int32) error {
	ask, cells := d.unknownCells(c, col, ids)
	if len(ask) == 0 {
		return nil
	}
	verdicts := d.verdictsFor(len(ask))
	_, err := r.predicates[i].ask(ctx, r)
	if err == nil {
		err = r.profile.Predicates[i].Policy.Filter(ctx, ask, verdicts)
	}
	if err == nil {
		err = d.learn(ctx, r, r.profile.Predicates[i].Policy, col)
	}
	if err != nil {
		col.markAll(cells)
		return err
	}
	for k, cell := range cells {
		col.verdicts[cell] = verdicts[k]
	}
	return nil
}

// unknownCells lists the cells of parts that have no answer, and a row to ask about
// for each. Where all rows are one part, what holds for the first holds for all.
func (d *Decider) unknownCells(c *class, col *column, ids []int32) (ask, cells []int32) {
	if only := col.part.only(); only != none && len(ids) > 0 {
		ids = ids[:1]
	}
	if d.asked = d.asked[:0]; col.blank && col.part == c.part {
		for _, id := range ids {
			d.asked = append(d.asked, c.part.parts[id].first)
		}
		col.blank = false
		return d.asked, ids
	}
	d.cells = d.cells[:0]
	for _, id := range ids {
		if cell := c.cell(col, id); col.ask(cell) {
			d.asked, d.cells = append(d.asked, c.part.parts[id].first), append(d.cells, cell)
		}
	}
	col.blank = col.blank && len(d.cells) == 0
	return d.asked, d.cells
}

// weigh scores parts that have become feasible, and totals what moved. It says
// whether the totals of others may have.
func (d *Decider) weigh(ctx context.Context, r *run, c *class, ids []int32) (moved bool) {
	for k := range c.priorities {
		moved = d.weighBy(ctx, r, c, &c.priorities[k], ids) || moved
	}
	base, others := c.base(), c.feasible > 0
	for _, id := range ids {
		c.feasible += int(c.size[id])
		c.total[id] = base
	}
	if moved && others {
		ids = d.ids[:0]
		for id, total := range c.total {
			if total != out {
				c.total[id] = base
				ids = append(ids, int32(id))
			}
		}
		d.ids = ids
	}
	for k := range c.priorities {
		c.add(&c.priorities[k], ids)
	}
	return moved
}

// base is what the priorities that see all rows alike add to each total.
func (c *class) base() (sum int64) {
	for k := range c.priorities {
		p := &c.priorities[k]
		if only := p.part.only(); !p.skip && only != none {
			sum += p.weight * score.Normalize(p.kind, p.raw[only], p.extremes)
		}
	}
	return sum
}

// weighBy scores parts by one priority and says whether others' scores moved.
func (d *Decider) weighBy(ctx context.Context, r *run, c *class, p *scored, ids []int32) bool {
	answer, err := d.answer(ctx, r, &r.priorities[p.index], p.column)
	if again := r.failsAgain(r.priorities[p.index].policy, 0); err == nil && again != nil {
		err = again.Err
	}
	was := p.skip
	p.skip = err != nil || answer.Ask != abi.AskRows
	if err == nil && !p.skip {
		err = d.fillRaw(ctx, r, c, p, ids)
		p.skip = err != nil
	}
	if err != nil {
		d.priorityFailed(r, p.index, err)
	}
	if p.skip || p.raws == nil {
		// Parts that were scored before must not keep what these do not get.
		return p.skip != was
	}
	before := p.extremes
	for _, id := range ids {
		p.raws[id] = p.raw[c.cell(p.column, id)]
	}
	c.extremes(p, ids)
	return score.Moves(p.kind, before, p.extremes)
}

// fillRaw asks about one row of each part whose cell is unknown.
func (d *Decider) fillRaw(ctx context.Context, r *run, c *class, p *scored, ids []int32) error {
	ask, cells := d.unknownCells(c, p.column, ids)
	if len(ask) == 0 {
		return nil
	}
	raw := d.rawFor(len(ask))
	_, err := r.priorities[p.index].ask(ctx, r)
	if err == nil {
		err = r.profile.Priorities[p.index].Policy.Score(ctx, ask, raw)
	}
	if err == nil {
		err = d.learn(ctx, r, r.profile.Priorities[p.index].Policy, p.column)
	}
	if err != nil {
		p.markAll(cells)
		return err
	}
	for k, cell := range cells {
		p.raw[cell] = score.Clamp(raw[k])
	}
	return nil
}

// extremes takes further parts into a priority's extremes, and looks at all the
// feasible ones only where the last part that held one has gone.
func (c *class) extremes(p *scored, ids []int32) {
	if c.feasible > 0 && p.atMax > 0 && p.atMin > 0 {
		for _, id := range ids {
			p.take(p.raws[id])
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
	for _, id := range ids {
		take(p.raws[id])
	}
	if c.feasible == 0 {
		return
	}
	for id, total := range c.total {
		if total != out {
			take(p.raws[id])
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

// add adds a priority's share to the totals of parts, unless it is in their base.
func (c *class) add(p *scored, ids []int32) {
	switch {
	case p.skip || p.part.only() != none:
	case p.part == c.part:
		for _, id := range ids {
			c.total[id] += p.weight * score.Normalize(p.kind, p.raw[id], p.extremes)
		}
	default:
		for _, id := range ids {
			c.total[id] += p.weight * score.Normalize(p.kind, p.raw[c.cell(p.column, id)], p.extremes)
		}
	}
}
