package row

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/facts"
)

// MaxSlots bounds what a batch may make a guest allocate.
const MaxSlots = 1 << 20

// firstSlots is how many slots there is room for at first; the room doubles.
const firstSlots = 256

// Table is the table of nodes, by slot. Its columns have Len entries if the
// policy reads their group, none otherwise. Empty slots hold zeros. Columns
// may be read at any time, and may move when deltas are applied.
type Table struct {
	// Symbols is the instance's table of strings.
	Symbols *facts.Symbols
	reads   abi.Groups
	dec     *rowDecoder

	Live []bool
	Name []facts.Symbol

	// Group node.capacity, and node.usage.
	Allocatable        Columns
	AllocatableScalars [][]facts.Scalar
	Requested, NonZero Columns
	RequestedScalars   [][]facts.Scalar

	// Group node.labels and node.annotations.
	labels      [][]facts.Pair
	annotations [][]facts.Pair
	columns     []*labelColumn

	// Group node.taints: rows with equal taints have equal sets.
	TaintSet      []TaintSetID
	Unschedulable []bool
	taints        taintSets

	Conditions [][]facts.Condition
	Ports      [][]facts.HostPort
	Volumes    [][]facts.Volume
	Images     [][]facts.Image

	use uint64
	// named says that simple faces ask for amounts by name.
	named                                bool
	allocatableScalars, requestedScalars scalarColumns
	// room is how many slots there is to be room for at first.
	room int
	// depends is what the simple faces' authors looked at so far.
	depends Depends
}

// New is a table without rows, of the groups that a policy reads.
func New(reads abi.Groups) *Table {
	syms := facts.NewSymbols()
	r := &Table{Symbols: syms, reads: reads, dec: newRowDecoder(syms), room: firstSlots}
	r.taints.init()
	r.depends.rows = r
	return r
}

// Len is one more than the highest slot that was ever in use.
func (r *Table) Len() int32 { return int32(len(r.Live)) }

// Depends is what the table's rows were looked at for, or are going to be.
func (r *Table) Depends() *Depends { return &r.depends }

// Labels of a node.
func (r *Table) Labels(slot int32) facts.Labels { return r.labelsOf(r.labels, slot) }

// Annotations of a node.
func (r *Table) Annotations(slot int32) facts.Labels { return r.labelsOf(r.annotations, slot) }

func (r *Table) labelsOf(of [][]facts.Pair, slot int32) facts.Labels {
	if of == nil {
		return facts.Labels{}
	}
	return facts.MakeLabels(r.Symbols, of[slot])
}

// Taints of a node.
func (r *Table) Taints(slot int32) []facts.Taint {
	if r.TaintSet == nil {
		return nil
	}
	return r.taints.list[r.TaintSet[slot]]
}

// TaintSetOf returns the taints of a set.
func (r *Table) TaintSetOf(id TaintSetID) []facts.Taint { return r.taints.list[id] }

// TaintSets is one more than the highest set that was ever in use.
func (r *Table) TaintSets() int { return len(r.taints.list) }

// Expect notes how many slots there will be.
func (r *Table) Expect(slots int) {
	if slots > r.room {
		r.room = min(slots+slots/8, MaxSlots)
	}
}

func (r *Table) ensure(slot int32) {
	n := int(slot) + 1
	if n <= len(r.Live) {
		return
	}
	size := cap(r.Live)
	if n > size {
		size = max(r.room, 2*size, n)
	}
	r.Live, r.Name = growTo(r.Live, n, size), growTo(r.Name, n, size)
	if r.reads&abi.NodeCapacity != 0 {
		r.Allocatable.grow(n, size)
		r.AllocatableScalars = growTo(r.AllocatableScalars, n, size)
	}
	if r.reads&abi.NodeUsage != 0 {
		r.Requested.grow(n, size)
		r.NonZero.grow(n, size)
		r.RequestedScalars = growTo(r.RequestedScalars, n, size)
	}
	r.ensureLists(n, size)
	for _, c := range r.columns {
		c.values = growTo(c.values, n, size)
	}
	r.allocatableScalars.grow(n, size)
	r.requestedScalars.grow(n, size)
}

func (r *Table) ensureLists(n, size int) {
	if r.reads&abi.NodeLabels != 0 {
		r.labels = growTo(r.labels, n, size)
	}
	if r.reads&abi.NodeAnnotations != 0 {
		r.annotations = growTo(r.annotations, n, size)
	}
	if r.reads&abi.NodeTaints != 0 {
		r.TaintSet, r.Unschedulable = growTo(r.TaintSet, n, size), growTo(r.Unschedulable, n, size)
	}
	if r.reads&abi.NodeConditions != 0 {
		r.Conditions = growTo(r.Conditions, n, size)
	}
	if r.reads&abi.NodePorts != 0 {
		r.Ports = growTo(r.Ports, n, size)
	}
	if r.reads&abi.NodeVolumes != 0 {
		r.Volumes = growTo(r.Volumes, n, size)
	}
	if r.reads&abi.NodeImages != 0 {
		r.Images = growTo(r.Images, n, size)
	}
}

// Upsert takes in a row's changed groups; d has a name if it is a whole row.
func (r *Table) Upsert(slot int32, d *fb.Delta) {
	r.ensure(slot)
	if name := d.Name(); name != nil {
		r.Clear(slot)
		r.Live[slot] = true
		r.Name[slot] = r.Symbols.InternBytes(name)
	}
	if r.reads&abi.NodeUsage != 0 {
		r.setUsage(slot, d)
	}
	if r.reads&abi.NodeCapacity != 0 {
		r.setCapacity(slot, d)
	}
	r.followScalars(slot)
	if r.reads&(abi.NodeLabels|abi.NodeAnnotations) != 0 {
		r.setLabels(slot, d)
	}
	if r.reads&abi.NodeTaints != 0 {
		r.setTaints(slot, d)
	}
	if r.reads&(abi.NodeConditions|abi.NodePorts|abi.NodeVolumes|abi.NodeImages) != 0 {
		r.setLists(slot, d)
	}
}

func (r *Table) setUsage(slot int32, d *fb.Delta) {
	u := &r.dec.usage
	if d.Usage(u) == nil {
		return
	}
	r.Requested.set(slot, facts.ReadAmounts(u.Requested(&r.dec.amounts)))
	r.NonZero.set(slot, facts.ReadAmounts(u.NonZero(&r.dec.amounts)))
	r.RequestedScalars[slot] = r.RequestedScalars[slot][:0]
	if n := u.ScalarsLength(); n > 0 {
		r.RequestedScalars[slot] = r.dec.Scalars(r.RequestedScalars[slot], n, u.Scalars)
	}
}

func (r *Table) setCapacity(slot int32, d *fb.Delta) {
	c := &r.dec.capacity
	if d.Capacity(c) == nil {
		return
	}
	r.Allocatable.set(slot, facts.ReadAmounts(c.Allocatable(&r.dec.amounts)))
	r.AllocatableScalars[slot] = r.AllocatableScalars[slot][:0]
	if n := c.ScalarsLength(); n > 0 {
		r.AllocatableScalars[slot] = r.dec.Scalars(r.AllocatableScalars[slot], n, c.Scalars)
	}
}

func (r *Table) setLabels(slot int32, d *fb.Delta) {
	l := &r.dec.labels
	if r.labels != nil && d.Labels(l) != nil {
		r.labels[slot] = r.dec.pairs(r.labels[slot][:0], l)
		for _, c := range r.columns {
			c.values[slot] = r.Labels(slot).Value(c.key)
		}
	}
	if r.annotations != nil && d.Annotations(l) != nil {
		r.annotations[slot] = r.dec.pairs(r.annotations[slot][:0], l)
	}
}

func (r *Table) setTaints(slot int32, d *fb.Delta) {
	t := &r.dec.taints
	if d.Taints(t) == nil {
		return
	}
	r.Unschedulable[slot] = t.Unschedulable()
	r.TaintSet[slot] = r.taints.replace(r.TaintSet[slot], r.Symbols, t)
}

func (r *Table) setLists(slot int32, d *fb.Delta) {
	if r.Conditions != nil && d.Conditions(&r.dec.conds) != nil {
		r.Conditions[slot] = r.dec.conditions(r.Conditions[slot][:0])
	}
	if r.Ports != nil && d.Ports(&r.dec.rowPorts) != nil {
		r.Ports[slot] = r.Ports[slot][:0]
		if n := r.dec.rowPorts.ItemsLength(); n > 0 {
			r.Ports[slot] = r.dec.Ports(r.Ports[slot], n, r.dec.rowPorts.Items)
		}
	}
	if r.Volumes != nil && d.Volumes(&r.dec.rowVolumes) != nil {
		r.Volumes[slot] = r.Volumes[slot][:0]
		if n := r.dec.rowVolumes.ItemsLength(); n > 0 {
			r.Volumes[slot] = r.dec.Volumes(r.Volumes[slot], n, r.dec.rowVolumes.Items)
		}
	}
	if r.Images != nil && d.Images(&r.dec.rowImages) != nil {
		r.Images[slot] = r.dec.images(r.Images[slot][:0])
	}
}

// Clear empties a slot, keeping what its lists have of room.
func (r *Table) Clear(slot int32) {
	r.Live[slot], r.Name[slot] = false, facts.NoSymbol
	if r.reads&abi.NodeCapacity != 0 {
		r.Allocatable.set(slot, facts.Amounts{})
	}
	if r.reads&abi.NodeUsage != 0 {
		r.Requested.set(slot, facts.Amounts{})
		r.NonZero.set(slot, facts.Amounts{})
	}
	if r.TaintSet != nil {
		r.Unschedulable[slot] = false
		r.TaintSet[slot] = r.taints.release(r.TaintSet[slot])
	}
	for _, c := range r.columns {
		c.values[slot] = facts.NoSymbol
	}
	empty(r.AllocatableScalars, slot)
	empty(r.RequestedScalars, slot)
	r.followScalars(slot)
	empty(r.labels, slot)
	empty(r.annotations, slot)
	empty(r.Conditions, slot)
	empty(r.Ports, slot)
	empty(r.Volumes, slot)
	empty(r.Images, slot)
}

func empty[T any](lists [][]T, slot int32) {
	if lists != nil {
		lists[slot] = lists[slot][:0]
	}
}

// growTo lengthens s to n with zeros, with room for size where it must move.
func growTo[T any](s []T, n, size int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	t := make([]T, n, max(n, size))
	copy(t, s)
	return t
}
