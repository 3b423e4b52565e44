package guest

import (
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/row"
)

// Apply takes in a batch of deltas. After an error the instance is of no use.
func (in *Instance) Apply(b []byte) error {
	at, err := root(b)
	if err != nil {
		return err
	}
	batch := &in.batch
	batch.Init(b, at)
	in.asked = false
	in.rows.Expect(int(batch.Slots()))
	for i, n := 0, batch.DeltasLength(); i < n; i++ {
		batch.Deltas(&in.delta, i)
		if err := in.applyDelta(&in.delta); err != nil {
			return err
		}
	}
	in.seq = batch.Seq()
	return nil
}

func (in *Instance) applyDelta(d *fb.Delta) error {
	switch d.Kind() {
	case fb.DeltaKindRowUpsert:
		return in.upsertRow(d)
	case fb.DeltaKindRowRemove:
		return in.removeRow(d.Slot())
	case fb.DeltaKindPodPlaced, fb.DeltaKindPodRemoved:
		return in.movePod(d, d.Kind() == fb.DeltaKindPodPlaced)
	case fb.DeltaKindObjectUpsert, fb.DeltaKindObjectRemove:
		return in.changeObject(d)
	}
	return errUnknown
}

func (in *Instance) upsertRow(d *fb.Delta) error {
	slot := d.Slot()
	if slot < 0 || slot >= row.MaxSlots {
		return errSlot
	}
	At(slot)
	if d.Name() == nil && (int(slot) >= len(in.rows.Live) || !in.rows.Live[slot]) {
		return errRow
	}
	tell := in.onRow != nil && in.tells(d)
	if tell && int(slot) < len(in.rows.Live) && in.rows.Live[slot] {
		in.onRow.RowRemoved(slot)
	}
	in.rows.Upsert(slot, d)
	if tell {
		in.onRow.RowAdded(slot)
	}
	return nil
}

// tells says whether more than the usage changes.
func (in *Instance) tells(d *fb.Delta) bool {
	t := d.Table()
	const first, usage, last = 4 + 2*2, 4 + 2*8, 4 + 2*11 // fields name … images
	for field := uint16(first); field <= last; field += 2 {
		if field != usage && t.Offset(flatbuffers.VOffsetT(field)) != 0 {
			return true
		}
	}
	return false
}

func (in *Instance) removeRow(slot int32) error {
	if slot < 0 || int(slot) >= len(in.rows.Live) || !in.rows.Live[slot] {
		return nil
	}
	At(slot)
	if in.onRow != nil {
		in.onRow.RowRemoved(slot)
	}
	in.rows.Clear(slot)
	return nil
}

func (in *Instance) movePod(d *fb.Delta, placed bool) error {
	if in.onPod == nil || in.policy.Reads&abi.Pods == 0 {
		return nil
	}
	slot := d.Slot()
	if slot < 0 || slot >= row.MaxSlots {
		return errSlot
	}
	At(slot)
	p := &in.podRead
	switch {
	case d.Pod(p) != nil:
		in.placedDec.Pod(&in.placed, p)
		in.placedTold, in.placed.Again = true, false
	case !in.placedTold:
		return errNoPod
	default:
		in.placed.Again = true
	}
	if placed {
		in.onPod.PodPlaced(slot, &in.placed)
		return nil
	}
	in.onPod.PodRemoved(slot, &in.placed)
	return nil
}

func (in *Instance) changeObject(d *fb.Delta) error {
	if in.onObj == nil {
		return nil
	}
	var r fb.Object
	if d.Object(&r) == nil {
		return errShort
	}
	o := facts.DecodeObject(in.rows.Symbols, &r)
	if d.Kind() == fb.DeltaKindObjectUpsert {
		in.onObj.ObjectChanged(o)
		return nil
	}
	in.onObj.ObjectRemoved(o)
	return nil
}
