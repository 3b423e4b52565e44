package sdk

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
)

// maxSlots bounds what a batch may make a guest allocate.
const maxSlots = 1 << 20

// firstSlots is how many slots there is room for at first; the room doubles.
const firstSlots = 256

// Columns are amounts by slot.
type Columns struct {
	MilliCPU, Memory, EphemeralStorage, Pods []int64
}

// grow lengthens the columns to n, with room for size. They share one piece of
// memory: a collector that makes room for large pieces runs once for each.
func (c *Columns) grow(n, size int) {
	if n > cap(c.Pods) {
		slab := make([]int64, 4*size)
		for i, col := range [...]*[]int64{&c.MilliCPU, &c.Memory, &c.EphemeralStorage, &c.Pods} {
			part := slab[i*size : i*size+n : (i+1)*size]
			copy(part, *col)
			*col = part
		}
		return
	}
	c.MilliCPU, c.Memory = c.MilliCPU[:n], c.Memory[:n]
	c.EphemeralStorage, c.Pods = c.EphemeralStorage[:n], c.Pods[:n]
}

func (c *Columns) set(slot int32, a Amounts) {
	c.MilliCPU[slot], c.Memory[slot] = a.MilliCPU, a.Memory
	c.EphemeralStorage[slot], c.Pods[slot] = a.EphemeralStorage, a.Pods
}

// At is what the columns hold at a slot.
func (c *Columns) At(slot int32) Amounts {
	return Amounts{c.MilliCPU[slot], c.Memory[slot], c.EphemeralStorage[slot], c.Pods[slot]}
}

// Rows is the table of nodes, by slot. Its columns have Len entries if the
// policy reads their group, none otherwise. Empty slots hold zeros. Columns
// may be read at any time, and may move when deltas are applied.
type Rows struct {
	// Symbols is the instance's table of strings.
	Symbols *Symbols
	reads   abi.Groups
	dec     *decoder

	Live []bool
	Name []Symbol

	// Group node.capacity, and node.usage.
	Allocatable        Columns
	AllocatableScalars [][]Scalar
	Requested, NonZero Columns
	RequestedScalars   [][]Scalar

	// Group node.labels and node.annotations.
	labels      [][]Pair
	annotations [][]Pair
	columns     []*labelColumn

	// Group node.taints: rows with equal taints have equal sets.
	TaintSet      []TaintSetID
	Unschedulable []bool
	taints        taintSets

	Conditions [][]Condition
	Ports      [][]HostPort
	Volumes    [][]Volume
	Images     [][]Image

	use uint64
	// named says that simple faces ask for amounts by name.
	named                                bool
	allocatableScalars, requestedScalars scalarColumns
	// room is how many slots there is to be room for at first.
	room int
}

func newRows(reads abi.Groups) *Rows {
	syms := newSymbols()
	r := &Rows{Symbols: syms, reads: reads, dec: &decoder{syms: syms}, room: firstSlots}
	r.taints.init()
	return r
}

// Len is one more than the highest slot that was ever in use.
func (r *Rows) Len() int32 { return int32(len(r.Live)) }

// Labels of a node.
func (r *Rows) Labels(slot int32) Labels { return r.labelsOf(r.labels, slot) }

// Annotations of a node.
func (r *Rows) Annotations(slot int32) Labels { return r.labelsOf(r.annotations, slot) }

func (r *Rows) labelsOf(of [][]Pair, slot int32) Labels {
	if of == nil {
		return Labels{}
	}
	return Labels{r.Symbols, of[slot]}
}

// Taints of a node.
func (r *Rows) Taints(slot int32) []Taint {
	if r.TaintSet == nil {
		return nil
	}
	return r.taints.list[r.TaintSet[slot]]
}

// TaintSetOf returns the taints of a set.
func (r *Rows) TaintSetOf(id TaintSetID) []Taint { return r.taints.list[id] }

// TaintSets is one more than the highest set that was ever in use.
func (r *Rows) TaintSets() int { return len(r.taints.list) }

// expect notes how many slots there will be.
func (r *Rows) expect(slots int) {
	if slots > r.room {
		r.room = min(slots+slots/8, maxSlots)
	}
}

func (r *Rows) ensure(slot int32) {
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

func (r *Rows) ensureLists(n, size int) {
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

// upsert takes in a row's changed groups; d has a name if it is a whole row.
func (r *Rows) upsert(slot int32, d *fb.Delta) {
	r.ensure(slot)
	if name := d.Name(); name != nil {
		r.clear(slot)
		r.Live[slot] = true
		r.Name[slot] = r.Symbols.intern(name)
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

func (r *Rows) setUsage(slot int32, d *fb.Delta) {
	u := &r.dec.usage
	if d.Usage(u) == nil {
		return
	}
	r.Requested.set(slot, r.dec.amounts(u.Requested(&r.dec.amt)))
	r.NonZero.set(slot, r.dec.amounts(u.NonZero(&r.dec.amt)))
	r.RequestedScalars[slot] = r.RequestedScalars[slot][:0]
	if n := u.ScalarsLength(); n > 0 {
		r.RequestedScalars[slot] = r.dec.scalars(r.RequestedScalars[slot], n, u.Scalars)
	}
}

func (r *Rows) setCapacity(slot int32, d *fb.Delta) {
	c := &r.dec.capacity
	if d.Capacity(c) == nil {
		return
	}
	r.Allocatable.set(slot, r.dec.amounts(c.Allocatable(&r.dec.amt)))
	r.AllocatableScalars[slot] = r.AllocatableScalars[slot][:0]
	if n := c.ScalarsLength(); n > 0 {
		r.AllocatableScalars[slot] = r.dec.scalars(r.AllocatableScalars[slot], n, c.Scalars)
	}
}

func (r *Rows) setLabels(slot int32, d *fb.Delta) {
	l := &r.dec.labels
	if r.labels != nil && d.Labels(l) != nil {
		r.labels[slot] = r.dec.labelPairs(r.labels[slot][:0], l)
		for _, c := range r.columns {
			c.values[slot] = r.Labels(slot).Value(c.key)
		}
	}
	if r.annotations != nil && d.Annotations(l) != nil {
		r.annotations[slot] = r.dec.labelPairs(r.annotations[slot][:0], l)
	}
}

func (r *Rows) setTaints(slot int32, d *fb.Delta) {
	t := &r.dec.taints
	if d.Taints(t) == nil {
		return
	}
	r.Unschedulable[slot] = t.Unschedulable()
	r.TaintSet[slot] = r.taints.replace(r.TaintSet[slot], r.Symbols, t)
}

func (r *Rows) setLists(slot int32, d *fb.Delta) {
	if r.Conditions != nil && d.Conditions(&r.dec.conds) != nil {
		r.Conditions[slot] = r.dec.rowConditions(r.Conditions[slot][:0])
	}
	if r.Ports != nil && d.Ports(&r.dec.rowPorts) != nil {
		r.Ports[slot] = r.Ports[slot][:0]
		if n := r.dec.rowPorts.ItemsLength(); n > 0 {
			r.Ports[slot] = r.dec.ports(r.Ports[slot], n, r.dec.rowPorts.Items)
		}
	}
	if r.Volumes != nil && d.Volumes(&r.dec.rowVolumes) != nil {
		r.Volumes[slot] = r.Volumes[slot][:0]
		if n := r.dec.rowVolumes.ItemsLength(); n > 0 {
			r.Volumes[slot] = r.dec.volumes(r.Volumes[slot], n, r.dec.rowVolumes.Items)
		}
	}
	if r.Images != nil && d.Images(&r.dec.rowImages) != nil {
		r.Images[slot] = r.dec.images(r.Images[slot][:0])
	}
}

// clear empties a slot, keeping what its lists have of room.
func (r *Rows) clear(slot int32) {
	r.Live[slot], r.Name[slot] = false, NoSymbol
	if r.reads&abi.NodeCapacity != 0 {
		r.Allocatable.set(slot, Amounts{})
	}
	if r.reads&abi.NodeUsage != 0 {
		r.Requested.set(slot, Amounts{})
		r.NonZero.set(slot, Amounts{})
	}
	if r.TaintSet != nil {
		r.Unschedulable[slot] = false
		r.TaintSet[slot] = r.taints.release(r.TaintSet[slot])
	}
	for _, c := range r.columns {
		c.values[slot] = NoSymbol
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

// reuse is a slice of n, of s's memory if that is enough. What it holds is
// undefined.
func reuse[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n, n+n/4)
}
