package row

import (
	"fmt"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/facts"
)

// delta writes a row's delta and reads it again.
func delta(slot int32, name string, labels ...string) *fb.Delta {
	b := flatbuffers.NewBuilder(0)
	var items []flatbuffers.UOffsetT
	for i := 0; i+1 < len(labels); i += 2 {
		k, v := b.CreateString(labels[i]), b.CreateString(labels[i+1])
		fb.KVStart(b)
		fb.KVAddKey(b, k)
		fb.KVAddValue(b, v)
		items = append(items, fb.KVEnd(b))
	}
	vector := b.CreateVectorOfTables(items)
	fb.LabelsStart(b)
	fb.LabelsAddItems(b, vector)
	list := fb.LabelsEnd(b)
	var text flatbuffers.UOffsetT
	if name != "" {
		text = b.CreateString(name)
	}
	fb.DeltaStart(b)
	fb.DeltaAddSlot(b, slot)
	fb.DeltaAddName(b, text)
	fb.DeltaAddLabels(b, list)
	b.Finish(fb.DeltaEnd(b))
	d := &fb.Delta{}
	d.Init(b.FinishedBytes(), flatbuffers.GetUOffsetT(b.FinishedBytes()))
	return d
}

func TestASlotTakesAnotherNode(t *testing.T) {
	t.Parallel()
	r := New(abi.NodeLabels | abi.NodeTaints)
	r.Upsert(3, delta(3, "a", "zone", "z1"))
	zone := r.Symbols.Intern("zone")
	if got := r.Symbols.String(r.LabelColumn(zone)[3]); got != "z1" {
		t.Fatalf("zone = %q, want z1", got)
	}
	r.Upsert(3, delta(3, "b", "disk", "ssd"))
	if got := r.LabelColumn(zone)[3]; got != facts.NoSymbol {
		t.Errorf("zone of the new node = %q, want none", r.Symbols.String(got))
	}
	if v, ok := r.Labels(3).Get("disk"); v != "ssd" || !ok {
		t.Errorf("disk = %q, %v", v, ok)
	}
	r.Upsert(3, delta(3, "", "zone", "z2"))
	if got := r.Symbols.String(r.LabelColumn(zone)[3]); got != "z2" || !r.Live[3] {
		t.Errorf("zone after a change = %q, want z2", got)
	}
	r.Clear(3)
	if r.LabelColumn(zone)[3] != facts.NoSymbol || r.Live[3] || r.Live[0] {
		t.Error("a row that was removed left something")
	}
}

func TestLabelColumnsAreBounded(t *testing.T) {
	t.Parallel()
	r := New(abi.NodeLabels)
	r.Upsert(0, delta(0, "a", "key-0", "v", "key-99", "w"))
	for i := range 100 {
		r.LabelColumn(r.Symbols.Intern(fmt.Sprintf("key-%d", i)))
	}
	if len(r.columns) != maxColumns {
		t.Errorf("%d columns, want %d", len(r.columns), maxColumns)
	}
	for key, want := range map[string]string{"key-0": "v", "key-99": "w", "key-5": ""} {
		if got := r.LabelColumn(r.Symbols.Intern(key))[0]; r.Symbols.String(got) != want {
			t.Errorf("%s = %q, want %q", key, r.Symbols.String(got), want)
		}
	}
}

func TestColumnsFollowRowsThatCameLater(t *testing.T) {
	t.Parallel()
	r := New(abi.NodeLabels | abi.NodeUsage | abi.NodeCapacity)
	zone := r.Symbols.Intern("zone")
	r.LabelColumn(zone)
	for slot := range int32(2000) {
		r.Upsert(slot, delta(slot, fmt.Sprint("n", slot), "zone", fmt.Sprint("z", slot%7)))
	}
	column := r.LabelColumn(zone)
	for slot := range int32(2000) {
		if got, want := r.Symbols.String(column[slot]), fmt.Sprint("z", slot%7); got != want {
			t.Fatalf("zone of %d = %q, want %q", slot, got, want)
		}
	}
	if len(r.Requested.Pods) != 2000 || len(r.Allocatable.MilliCPU) != 2000 {
		t.Errorf("columns have %d and %d rows", len(r.Requested.Pods), len(r.Allocatable.MilliCPU))
	}
}

func TestEqualTaintsShareASet(t *testing.T) {
	t.Parallel()
	r := New(abi.NodeTaints)
	a := []facts.Taint{{Key: 5, Effect: facts.NoSchedule}}
	first := r.taints.acquire(a)
	if again := r.taints.acquire(a); again != first {
		t.Errorf("acquire = %d, want %d", again, first)
	}
	r.taints.release(first)
	r.taints.release(first)
	other := r.taints.acquire([]facts.Taint{{Key: 6, Effect: facts.NoExecute}})
	if other != first || r.taints.list[other][0].Key != 6 {
		t.Errorf("a set that no row has was not used again: %d", other)
	}
	if r.taints.acquire(nil) != 0 {
		t.Error("no taints are set 0")
	}
}
