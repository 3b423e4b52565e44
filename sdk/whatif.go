package sdk

import (
	"slices"

	"github.com/berth-dev/berth/abi/fb"
)

// WhatIf answers a list of questions: with these deltas applied and nothing
// else changed, does the row admit the pod of the cycle? Each is applied,
// judged and undone by itself. The answer has one byte for each question.
func (in *Instance) WhatIf(b []byte) ([]byte, error) {
	if in.filter == nil {
		return nil, errKind
	}
	if !in.asked {
		return nil, errNoPod
	}
	at, err := root(b)
	if err != nil {
		return nil, err
	}
	var input fb.WhatIfInput
	input.Init(b, at)
	in.out = reuse(in.out, input.QuestionsLength())
	var q fb.Question
	for i := range in.out {
		input.Questions(&q, i)
		if in.out[i], err = in.foresee(&q); err != nil {
			in.asked = false
			return nil, err
		}
	}
	in.ask()
	return in.out, nil
}

// foresee applies, judges and undoes one question. The pod is taken in anew
// after the change, since a policy may have derived from rows what it asks.
func (in *Instance) foresee(q *fb.Question) (ReasonID, error) {
	n := q.DeltasLength()
	undo := make([]rowState, 0, n)
	for i := 0; i < n; i++ {
		q.Deltas(&in.delta, i)
		if in.delta.Kind() > fb.DeltaKindPodRemoved {
			return 0, errUnknown
		}
		undo = in.save(undo, &in.delta)
		if err := in.applyDelta(&in.delta); err != nil {
			return 0, err
		}
	}
	slot := q.Row()
	At(slot)
	if slot < 0 || int(slot) >= len(in.rows.Live) || !in.rows.Live[slot] {
		return 0, errRow
	}
	reason := ReasonID(0)
	switch a := in.ask(); {
	case a == AskRows:
		reason = in.judge(slot)
	case a != Skip:
		reason = a.reason
	}
	return reason, in.undo(q, undo)
}

// undo takes the deltas back, the last first.
func (in *Instance) undo(q *fb.Question, states []rowState) error {
	for i := q.DeltasLength() - 1; i >= 0; i-- {
		q.Deltas(&in.delta, i)
		switch kind := in.delta.Kind(); kind {
		case fb.DeltaKindPodPlaced, fb.DeltaKindPodRemoved:
			if err := in.movePod(&in.delta, kind == fb.DeltaKindPodRemoved); err != nil {
				return err
			}
		default:
			last := len(states) - 1
			in.restore(&states[last], &in.delta)
			states = states[:last]
		}
	}
	return nil
}

// rowState is a row as it was before a question.
type rowState struct {
	slot                      int32
	live                      bool
	name                      Symbol
	alloc, requested, nonZero Amounts
	allocScalars, scalars     []Scalar
	labels, annotations       []Pair
	taints                    TaintSetID
	unschedulable             bool
	conditions                []Condition
	ports                     []HostPort
	volumes                   []Volume
	images                    []Image
}

// save puts a row's state aside before a delta on it. The lists are copied,
// since a delta changes them in place.
func (in *Instance) save(states []rowState, d *fb.Delta) []rowState {
	if k := d.Kind(); k != fb.DeltaKindRowUpsert && k != fb.DeltaKindRowRemove {
		return states
	}
	r, slot := in.rows, d.Slot()
	st := rowState{slot: slot}
	if slot < 0 || int(slot) >= len(r.Live) {
		return append(states, st)
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
	return append(states, st)
}

func cloneAt[T any](lists [][]T, slot int32) []T {
	if lists == nil {
		return nil
	}
	return slices.Clone(lists[slot])
}

// restore puts a row back as it was before d.
func (in *Instance) restore(st *rowState, d *fb.Delta) {
	r, slot := in.rows, st.slot
	if slot < 0 || int(slot) >= len(r.Live) {
		return
	}
	tell := in.onRow != nil && (d.Kind() == fb.DeltaKindRowRemove || in.tells(d))
	if tell && r.Live[slot] {
		in.onRow.RowRemoved(slot)
	}
	r.clear(slot)
	r.put(st)
	if tell && st.live {
		in.onRow.RowAdded(slot)
	}
}

func (r *Rows) put(st *rowState) {
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
