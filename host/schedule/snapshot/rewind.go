package snapshot

import (
	"slices"

	"github.com/berth-dev/berth/host/schedule/chunkqueue"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// former is a row on its way back: what stands on it changes often, and is
// summed up once, at the end.
type former struct {
	node *v1.Node
	pods []*Ref
}

// rewind undoes what came after a position.
func (v *View) rewind(log chunkqueue.Part[change], to uint64) {
	rows := map[int32]*former{}
	for c := range log.From(after(to)).Backward() {
		v.undo(c, rows)
	}
	for slot, f := range rows {
		v.set(slot, f.row(slot, v.rows[slot]))
	}
	v.seq = to
}

func (v *View) undo(c *change, rows map[int32]*former) {
	if o, ok := c.what.(*objectChange); ok {
		v.exchange(o.resource, o.after, o.before)
		return
	}
	f := rows[c.slot]
	if f == nil {
		f = formerOf(v.rows[c.slot])
		rows[c.slot] = f
	}
	switch what := c.what.(type) {
	case *nodeChange:
		f.node = what.before
	case *Ref:
		if c.index == came {
			f.pods = f.pods[:len(f.pods)-1]
			return
		}
		f.pods = slices.Insert(f.pods, int(c.index), what)
	}
}

func formerOf(row *Row) *former {
	if row == nil {
		return &former{}
	}
	f := &former{node: row.Node, pods: make([]*Ref, len(row.Pods), len(row.Pods)+4)}
	for i, p := range row.Pods {
		f.pods[i] = p.ref
	}
	return f
}

// row puts the row together; now is what stands there at present.
func (f *former) row(slot int32, now *Row) *Row {
	if f.node == nil {
		return nil
	}
	row := &Row{Slot: slot, Node: f.node}
	if now != nil && now.Node == f.node {
		row.Allocatable = now.Allocatable
	} else {
		row.Allocatable = resourcesOf(f.node.Status.Allocatable, MaxAllocatable)
	}
	row.Pods = make([]*Pod, len(f.pods))
	for i, ref := range f.pods {
		row.Pods[i] = ref.Pod()
	}
	row.Requested, row.NonZero = sums(row.Pods)
	row.Requested.Pods = int64(len(row.Pods))
	row.NonZero.Pods = row.Requested.Pods
	row.Ports = portsOf(row.Pods)
	return row
}

// exchange puts one state of an object in place of another; nil is none.
func (v *View) exchange(resource string, old, new runtime.Object) {
	if new != nil {
		v.keep(resource, new)
		return
	}
	if name, ok := nameOf(old); ok {
		delete(v.objects[resource], name)
	}
}
