package guest

import (
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/row"
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
	undo := make([]row.RowState, 0, n)
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
func (in *Instance) undo(q *fb.Question, states []row.RowState) error {
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

// save puts a row's state aside before a delta on it.
func (in *Instance) save(states []row.RowState, d *fb.Delta) []row.RowState {
	if k := d.Kind(); k != fb.DeltaKindRowUpsert && k != fb.DeltaKindRowRemove {
		return states
	}
	return append(states, in.rows.Save(d.Slot()))
}

// restore puts a row back as it was before d.
func (in *Instance) restore(st *row.RowState, d *fb.Delta) {
	r, slot := in.rows, d.Slot()
	if slot < 0 || int(slot) >= len(r.Live) {
		return
	}
	tell := in.onRow != nil && (d.Kind() == fb.DeltaKindRowRemove || in.tells(d))
	if tell && r.Live[slot] {
		in.onRow.RowRemoved(slot)
	}
	r.Restore(st)
	if tell && r.Live[slot] {
		in.onRow.RowAdded(slot)
	}
}
