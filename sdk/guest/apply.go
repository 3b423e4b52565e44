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
	pod := in.moved(d)
	if pod == nil {
		return errNoPod
	}
	if placed {
		in.onPod.PodPlaced(slot, pod)
		return nil
	}
	in.onPod.PodRemoved(slot, pod)
	return nil
}

// keptPod is a pod that others may be like. It has a decoder of its own, which holds
// what its terms are made of.
type keptPod struct {
	pod facts.Pod
	dec *facts.Decoder
}

// moved is the pod that a delta tells of, kept for others; nil where it neither has
// one nor names one that was told.
func (in *Instance) moved(d *fb.Delta) *facts.Pod {
	at := d.Kept()
	if at >= abi.KeptPods {
		return nil
	}
	k := in.kept[at]
	if d.Pod(&in.podRead) == nil {
		if k == nil {
			return nil
		}
		k.pod.Again = true
		return &k.pod
	}
	if k == nil {
		k = &keptPod{dec: facts.NewDecoder(in.rows.Symbols)}
		k.pod.Kept = at
		in.kept[at] = k
	}
	k.dec.Pod(&k.pod, &in.podRead)
	k.pod.Again = false
	return &k.pod
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
