package cycle

import (
	"container/list"
	"context"
	"encoding/binary"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// Options bound what a Decider remembers.
type Options struct {
	// Reasons is the table that the policies share.
	Reasons *framework.Reasons
	// MemoryBytes is about what remembered answers may take; 256 MiB by default.
	MemoryBytes int64
	// OnDivergence is told of remembered answers that a second instance did not
	// give; from then on the policy's answers are not remembered. May be nil.
	OnDivergence func(Divergence)
}

// Decider decides, one pod at a time. It belongs to one goroutine.
//
// It is large because its files are the steps of one decision in the order in
// which they are taken, and all of them work on the same remembered answers.
type Decider struct {
	reasons      *framework.Reasons
	onDivergence func(Divergence)
	// forgetful are policies whose answers have proved not to be repeatable.
	forgetful map[[32]byte]bool
	// stale says that a policy has just become one of them.
	stale bool
	// skips are positions of the log at which a policy of scope set said that
	// it has nothing to say of a kind of pod.
	skips map[skipKey]skip

	partitions partitions
	columns    lru[columnKey, *column]
	classes    lru[classKey, *class]
	seen       [1 << 13]uint64
	// set is the live set that the classes are of.
	set *framework.LiveSet

	// Scratch of a cycle, kept between cycles.
	run      run
	passing  []*column
	spare    []*column
	class    *class
	spareOne *class
	marks    []uint32
	epoch    uint32
	dirty    []int32
	ids      []int32
	asked    []int32
	cells    []int32
	verdicts []framework.ReasonID
	raw      []int64
	field    field
}

// New returns a Decider.
func New(o Options) *Decider {
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = 256 << 20
	}
	if o.Reasons == nil {
		o.Reasons = framework.NewReasons(0)
	}
	return &Decider{
		reasons:      o.Reasons,
		onDivergence: o.OnDivergence,
		forgetful:    map[[32]byte]bool{},
		skips:        map[skipKey]skip{},
		partitions:   newPartitions(),
		columns:      newLRU[columnKey, *column](o.MemoryBytes / 2),
		classes:      newLRU[classKey, *class](o.MemoryBytes / 2),
	}
}

// skipKey finds a skip.
type skipKey struct {
	identity [32]byte
	pod      uint64
}

// skip is when the policy was asked, and up to where the log has nothing that
// could have changed its answer since.
type skip struct{ asked, seq uint64 }

// maxSkips bounds them; beyond, they are forgotten all at once.
const maxSkips = 1 << 15

// Remembered is about how many bytes the remembered answers take.
func (d *Decider) Remembered() int64 { return d.columns.bytes + d.classes.bytes }

func (d *Decider) newMarks(n int) {
	if len(d.marks) < n {
		d.marks = make([]uint32, n)
		d.epoch = 0
	}
	d.epoch++
	if d.epoch == 0 {
		clear(d.marks)
		d.epoch = 1
	}
}

func (d *Decider) marked(id int32) bool { return d.marks[id] == d.epoch }
func (d *Decider) mark(id int32)        { d.marks[id] = d.epoch }

func (d *Decider) verdictsFor(n int) []framework.ReasonID {
	if cap(d.verdicts) < n {
		d.verdicts = make([]framework.ReasonID, n+n/4)
	}
	d.verdicts = d.verdicts[:n]
	clear(d.verdicts)
	return d.verdicts
}

func (d *Decider) rawFor(n int) []int64 {
	if cap(d.raw) < n {
		d.raw = make([]int64, n+n/4)
	}
	d.raw = d.raw[:n]
	clear(d.raw)
	return d.raw
}

// remembers says whether answers of a policy are kept.
func (d *Decider) remembers(info *framework.Info) bool {
	return info.Cacheable() && !d.forgetful[info.Identity]
}

// before says whether something with this hash came by lately: what comes but
// once is not worth keeping.
func (d *Decider) before(hash uint64) bool {
	at := &d.seen[hash%uint64(len(d.seen))]
	known := *at == hash
	*at = hash
	return known
}

// columnFor finds or makes the column of a policy for the cycle's pod.
func (d *Decider) columnFor(r *run, info *framework.Info, scores bool) *column {
	key := columnKey{identity: info.Identity, pod: r.pod.HashOf(info.Reads), scores: scores}
	if col, ok := d.columns.get(key); ok {
		return col
	}
	col := d.spareColumn(key)
	col.key, col.reads, col.depends, col.answered = key, info.Reads, nil, false
	col.part = nil
	if d.before(splitmix(key.pod ^ binary.LittleEndian.Uint64(info.Identity[:]))) {
		d.columns.put(key, col)
		return col
	}
	d.passing = append(d.passing, col)
	return col
}

// spareColumn takes a column that nobody needs any more, or makes one. It holds
// answers to other questions until it is placed.
func (d *Decider) spareColumn(key columnKey) *column {
	for i, col := range slices.Backward(d.spare) {
		if col.key.scores != key.scores {
			continue
		}
		last := len(d.spare) - 1
		d.spare[i] = d.spare[last]
		d.spare = d.spare[:last]
		return col
	}
	return &column{}
}

// classFor finds or makes the class of the cycle's pod.
func (d *Decider) classFor(ctx context.Context, r *run) *class {
	key := classKey{profile: r.profile, pod: r.pod.HashOf(abi.PodGroups)}
	if c, ok := d.classes.get(key); ok {
		if !c.built || !c.stands() {
			d.divide(ctx, r, c)
		}
		return c
	}
	c := d.spareOne
	if c == nil {
		c = &class{}
	}
	d.spareOne = nil
	d.compose(ctx, r, c, key)
	if d.before(key.pod) {
		d.classes.put(key, c)
		c.hold(1)
		return c
	}
	d.class = c
	return c
}

// compose makes an unbuilt class of the profile's columns.
func (d *Decider) compose(ctx context.Context, r *run, c *class, key classKey) {
	c.key = key
	c.predicates = c.predicates[:0]
	for _, i := range r.remembered {
		c.predicates = append(c.predicates, d.columnFor(r, r.profile.Predicates[i].Policy.Info(), false))
	}
	old := c.priorities
	c.priorities = c.priorities[:0]
	for i := range r.profile.Priorities {
		p := &r.profile.Priorities[i]
		info := p.Policy.Info()
		if !d.remembers(info) {
			continue
		}
		part := scored{column: d.columnFor(r, info, true), index: i, weight: p.Weight, kind: info.Normalize}
		if k := len(c.priorities); part.kind != abi.NormalizeNone {
			part.raws = []int64{}
			if k < len(old) && old[k].raws != nil {
				part.raws = old[k].raws
			}
		}
		c.priorities = append(c.priorities, part)
	}
	d.divide(ctx, r, c)
}

// divide chooses the class's partition, by what its policies read of rows for the
// cycle's pod, and puts nothing in it. Policies that skip the pod or refuse it as
// such read nothing, and what is the same on all rows divides none.
func (d *Decider) divide(ctx context.Context, r *run, c *class) {
	c.same, c.placed = c.same[:0], c.placed[:0]
	var by abi.Depends
	matters := func(s *session, col *column) {
		answer, err := d.answer(ctx, r, s, col)
		d.place(r, col)
		if col.depends != nil {
			c.placed = append(c.placed, placed{col, col.part, col.version()})
		}
		if err == nil && answer.Ask != abi.AskRows {
			return
		}
		if only := col.part.only(); only != none {
			c.same = append(c.same, single{col.part, col.part.parts[only].hash})
			return
		}
		by.Groups |= col.part.groups
		if len(col.part.labels) > 0 {
			by = *by.Union(&abi.Depends{Labels: col.part.labels})
		}
	}
	for k, i := range r.remembered {
		matters(&r.predicates[i], c.predicates[k])
	}
	for k := range c.priorities {
		matters(&r.priorities[c.priorities[k].index], c.priorities[k].column)
	}
	if len(by.Labels) > 0 {
		by = *by.Union(&abi.Depends{}) // without those of which a group has all
	}
	c.part = d.partitions.by(by.Groups, by.Labels, r.log)
	n := min(len(c.by), len(c.part.parts))
	c.by, c.why, c.total, c.size = c.by[:n], c.why[:n], c.total[:n], c.size[:n]
	for id := range n {
		c.by[id], c.total[id] = empty, out
	}
	c.tops, c.built, c.feasible = c.tops[:0], false, 0
	c.at = c.part.touched.end()
}

// endCycle takes back what the cycle used but nobody keeps.
func (d *Decider) endCycle() {
	if d.class != nil {
		d.spareOne, d.class = d.class, nil
	}
	for _, col := range d.passing {
		d.giveBack(col)
	}
	d.passing = d.passing[:0]
	d.columns.trim((*column).bytes, d.giveBack)
	d.classes.trim((*class).bytes, d.dropClass)
}

// giveBack keeps a column's memory for another one, unless a class uses it.
func (d *Decider) giveBack(col *column) {
	if col.held == 0 && len(d.spare) < 64 {
		d.spare = append(d.spare, col)
	}
}

func (d *Decider) dropClass(c *class) {
	c.hold(-1)
	if d.spareOne == nil {
		d.spareOne = c
	}
}

// hold counts a remembered class in or out of its columns.
func (c *class) hold(n int) {
	for _, col := range c.predicates {
		col.held += n
	}
	for i := range c.priorities {
		c.priorities[i].held += n
	}
}

// forget drops all that is remembered.
func (d *Decider) forget() {
	d.forgetClasses()
	d.columns.clear()
	d.spare, d.partitions = nil, newPartitions()
}

// forgetClasses drops what was put together, when the live set has changed; the
// columns stay, for policies that are the same in the new set.
func (d *Decider) forgetClasses() {
	for e := d.classes.order.Front(); e != nil; e = e.Next() {
		e.Value.(*lruEntry[classKey, *class]).value.hold(-1)
	}
	d.classes.clear()
	d.spareOne = nil
}

// lru keeps what was used last within a number of bytes.
type lru[K comparable, V any] struct {
	limit int64
	bytes int64
	byKey map[K]*list.Element
	order *list.List
	// grown are entries whose size is not counted yet.
	grown []*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
	bytes int64
}

func newLRU[K comparable, V any](limit int64) lru[K, V] {
	return lru[K, V]{limit: limit, byKey: map[K]*list.Element{}, order: list.New()}
}

func (l *lru[K, V]) get(key K) (value V, ok bool) {
	e, ok := l.byKey[key]
	if !ok {
		return value, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruEntry[K, V]).value, true
}

func (l *lru[K, V]) put(key K, value V) {
	e := l.order.PushFront(&lruEntry[K, V]{key: key, value: value})
	l.byKey[key] = e
	l.grown = append(l.grown, e)
}

// trim counts what was put, and drops what was used longest ago beyond the limit.
func (l *lru[K, V]) trim(size func(V) int64, dropped func(V)) {
	for _, e := range l.grown {
		entry := e.Value.(*lruEntry[K, V])
		entry.bytes = size(entry.value)
		l.bytes += entry.bytes
	}
	l.grown = l.grown[:0]
	for l.bytes > l.limit && l.order.Len() > 1 {
		entry := l.order.Remove(l.order.Back()).(*lruEntry[K, V])
		delete(l.byKey, entry.key)
		l.bytes -= entry.bytes
		dropped(entry.value)
	}
}

func (l *lru[K, V]) clear() {
	clear(l.byKey)
	l.order.Init()
	l.grown, l.bytes = l.grown[:0], 0
}
