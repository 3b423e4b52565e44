package row

import (
	"slices"

	"github.com/berth-dev/berth/sdk/facts"
)

// RowState is a row as it was when it was saved.
type RowState struct {
	slot                      int32
	live                      bool
	name                      facts.Symbol
	alloc, requested, nonZero facts.Amounts
	allocScalars, scalars     []facts.Scalar
	labels, annotations       []facts.Pair
	taints                    TaintSetID
	unschedulable             bool
	conditions                []facts.Condition
	ports                     []facts.HostPort
	volumes                   []facts.Volume
	images                    []facts.Image
}

// Save is what a row is now; its lists are copies, since a delta changes them in place.
func (r *Table) Save(slot int32) RowState {
	st := RowState{slot: slot}
	if slot < 0 || int(slot) >= len(r.Live) {
		return st
	}
	st.live, st.name = r.Live[slot], r.Name[slot]
	if r.AllocatableScalars != nil {
		st.alloc, st.allocScalars = r.Allocatable.At(slot), slices.Clone(r.AllocatableScalars[slot])
	}
	if r.RequestedScalars != nil {
		st.requested, st.nonZero = r.Requested.At(slot), r.NonZero.At(slot)
		st.scalars = slices.Clone(r.RequestedScalars[slot])
	}
	if r.TaintSet != nil {
		st.taints, st.unschedulable = r.TaintSet[slot], r.Unschedulable[slot]
		r.taints.retain(st.taints)
	}
	st.labels, st.annotations = cloneAt(r.labels, slot), cloneAt(r.annotations, slot)
	st.conditions, st.ports = cloneAt(r.Conditions, slot), cloneAt(r.Ports, slot)
	st.volumes, st.images = cloneAt(r.Volumes, slot), cloneAt(r.Images, slot)
	return st
}

func cloneAt[T any](lists [][]T, slot int32) []T {
	if lists == nil {
		return nil
	}
	return slices.Clone(lists[slot])
}

// Restore puts a row back as it was when it was saved.
func (r *Table) Restore(st *RowState) {
	r.Clear(st.slot)
	r.put(st)
}

func (r *Table) put(st *RowState) {
	slot := st.slot
	r.Live[slot], r.Name[slot] = st.live, st.name
	if r.AllocatableScalars != nil {
		r.Allocatable.set(slot, st.alloc)
		r.AllocatableScalars[slot] = st.allocScalars
	}
	if r.RequestedScalars != nil {
		r.Requested.set(slot, st.requested)
		r.NonZero.set(slot, st.nonZero)
		r.RequestedScalars[slot] = st.scalars
	}
	r.followScalars(slot)
	if r.TaintSet != nil {
		// The count that save took is now the row's.
		r.TaintSet[slot], r.Unschedulable[slot] = st.taints, st.unschedulable
	}
	putAt(r.labels, slot, st.labels)
	putAt(r.annotations, slot, st.annotations)
	putAt(r.Conditions, slot, st.conditions)
	putAt(r.Ports, slot, st.ports)
	putAt(r.Volumes, slot, st.volumes)
	putAt(r.Images, slot, st.images)
	for _, c := range r.columns {
		c.values[slot] = r.Labels(slot).Value(c.key)
	}
}

func putAt[T any](lists [][]T, slot int32, list []T) {
	if lists != nil {
		lists[slot] = list
	}
}
