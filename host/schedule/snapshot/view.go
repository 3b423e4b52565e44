package snapshot

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/chunkqueue"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// View is the cluster as it was at one position of the log. It is never
// changed and may be read by anyone.
type View struct {
	table
	objects
	seq uint64
	// recent is what came lately; nil where that is not known.
	recent *recent
}

// Now returns the present, with what came lately, for those that follow the
// cluster beside its goroutine.
func (c *Cluster) Now() *View {
	v := c.Moment().view
	v.recent = c.history.tail.held()
	return v
}

// At returns the cluster as it was at seq; ok is false where the log does not
// reach back so far.
func (c *Cluster) At(seq uint64) (*View, bool) { return c.Moment().At(seq) }

// Moment is the present state with the log behind it, to be read beside the
// cluster that goes on: to look back takes a while, to take a moment does not.
type Moment struct {
	view   *View
	oldest uint64
	log    chunkqueue.Part[change]
}

// Moment takes down the present.
func (c *Cluster) Moment() *Moment {
	v := &View{table: c.table.clone(), objects: map[string]map[types.NamespacedName]object{}, seq: c.history.seq}
	for resource, all := range c.objects {
		v.objects[resource] = maps.Clone(all)
	}
	return &Moment{view: v, oldest: c.Oldest(), log: c.history.changes.list.From(0)}
}

// At is the state at a position, which takes the moment over.
func (m *Moment) At(seq uint64) (*View, bool) {
	if seq < m.oldest || seq > m.view.seq {
		return nil, false
	}
	m.view.rewind(m.log, seq)
	return m.view, true
}

// keep takes an object in.
func (v *View) keep(resource string, o runtime.Object) {
	all := v.objects[resource]
	if all == nil {
		all = map[types.NamespacedName]object{}
		v.objects[resource] = all
	}
	if name, ok := nameOf(o); ok {
		all[name] = object{resource: resource, Object: o}
	}
}

func nameOf(o runtime.Object) (types.NamespacedName, bool) {
	m, ok := o.(Object)
	if !ok {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, true
}

// Seq implements Log.
func (v *View) Seq() uint64 { return v.seq }

// Since implements Log. Only a view of the present knows what came before it.
func (v *View) Since(seq uint64) (Deltas, bool) {
	if seq >= v.seq || v.recent == nil {
		return Deltas{}, seq == v.seq
	}
	return v.recent.since(seq)
}

// Base implements Log.
func (v *View) Base(yield func(Delta) bool) { base(v.rows, v.objects, v.seq, yield) }

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
	n := New(c.history.changes.limit)
	n.history.seq, n.history.borrowed = c.history.seq, true
	n.ForgetAll()
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
	n.pods, n.slots, n.placed, n.nominated = c.pods, maps.Clone(c.slots), maps.Clone(c.placed), maps.Clone(c.nominated)
	for node, pods := range c.strays {
		n.strays[node] = slices.Clone(pods)
	}
	for resource, all := range c.objects {
		n.objects[resource] = maps.Clone(all)
	}
	return n
}
