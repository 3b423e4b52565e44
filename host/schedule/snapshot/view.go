package snapshot

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/abi"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// View is the cluster as it was at one position of the log. It is never
// changed and may be read by anyone.
type View struct {
	rows    []*Row
	objects map[string]map[types.NamespacedName]object
	history history
}

// At returns the cluster as it was at seq; ok is false where the log does not
// reach back so far.
func (c *Cluster) At(seq uint64) (*View, bool) {
	if !c.history.holds(seq) {
		return nil, false
	}
	v := &View{rows: slices.Clone(c.rows), objects: map[string]map[types.NamespacedName]object{}}
	for resource, all := range c.objects {
		v.objects[resource] = maps.Clone(all)
	}
	from := c.history.after(seq)
	for i := len(c.history.deltas) - 1; i >= from; i-- {
		v.undo(&c.history.deltas[i], c.history.before[i])
	}
	v.history = history{limit: c.history.limit, seq: seq, deltas: c.history.deltas[:from:from]}
	return v, true
}

func (v *View) undo(d *Delta, before former) {
	switch d.Kind {
	case RowUpsert, RowRemove:
		v.rows[d.Slot] = before.row
	case ObjectUpsert, ObjectRemove:
		v.undoObject(d, before.object)
	}
}

func (v *View) undoObject(d *Delta, before runtime.Object) {
	o, ok := d.Object.(Object)
	if !ok {
		return
	}
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	if before == nil {
		delete(v.objects[d.Resource], key)
		return
	}
	v.objects[d.Resource][key] = object{resource: d.Resource, Object: before}
}

// keep takes an object in.
func (v *View) keep(d *Delta) {
	o, ok := d.Object.(Object)
	if !ok {
		return
	}
	all := v.objects[d.Resource]
	if all == nil {
		all = map[types.NamespacedName]object{}
		v.objects[d.Resource] = all
	}
	all[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = object{resource: d.Resource, Object: d.Object}
}

// Seq implements Log.
func (v *View) Seq() uint64 { return v.history.seq }

// Since implements Log.
func (v *View) Since(seq uint64) ([]Delta, bool) { return v.history.since(seq) }

// Row implements Log.
func (v *View) Row(slot int32) *Row {
	if slot < 0 || int(slot) >= len(v.rows) {
		return nil
	}
	return v.rows[slot]
}

// Slots implements Log.
func (v *View) Slots() int32 { return int32(len(v.rows)) }

// Base implements Log.
func (v *View) Base(yield func(Delta) bool) { base(v.rows, v.objects, v.history.seq, yield) }

// base tells a whole state as deltas, objects in the order of their names.
func base(rows []*Row, objects map[string]map[types.NamespacedName]object, seq uint64, yield func(Delta) bool) {
	for _, resource := range slices.Sorted(maps.Keys(objects)) {
		all := objects[resource]
		keys := slices.SortedFunc(maps.Keys(all), compareNames)
		for _, key := range keys {
			if !yield(Delta{Seq: seq, Kind: ObjectUpsert, Slot: -1, Groups: objectGroups[resource], Resource: resource, Object: all[key].Object}) {
				return
			}
		}
	}
	for _, row := range rows {
		if row == nil {
			continue
		}
		if !yield(Delta{Seq: seq, Kind: RowUpsert, Slot: row.Slot, Groups: abi.NodeGroups, Row: row}) {
			return
		}
		for _, pod := range row.Pods {
			if !yield(Delta{Seq: seq, Kind: PodPlaced, Slot: row.Slot, Groups: abi.Pods, Pod: pod}) {
				return
			}
		}
	}
}

func compareNames(a, b types.NamespacedName) int {
	if a.Namespace != b.Namespace {
		if a.Namespace < b.Namespace {
			return -1
		}
		return 1
	}
	if a.Name < b.Name {
		return -1
	}
	return 1
}

// Clone copies the present state, to go on from it in another way. The copy's
// log begins here.
func (c *Cluster) Clone() *Cluster {
	n := New(c.history.limit)
	n.gen, n.history.seq = c.gen, c.history.seq
	n.rows = make([]*Row, len(c.rows))
	for i, row := range c.rows {
		if row == nil {
			continue
		}
		// The copy must not grow in an array that it shares.
		own := *row
		own.Pods = slices.Clip(own.Pods)
		n.rows[i] = &own
	}
	n.free, n.priorities = slices.Clone(c.free), maps.Clone(c.priorities)
	n.slots, n.placed, n.nominated = maps.Clone(c.slots), maps.Clone(c.placed), maps.Clone(c.nominated)
	for node, pods := range c.strays {
		n.strays[node] = slices.Clone(pods)
	}
	for resource, all := range c.objects {
		n.objects[resource] = maps.Clone(all)
	}
	return n
}
