package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Past puts a state together out of what was recorded of it.
type Past struct{ view *View }

// NewPast returns an empty state.
func NewPast() *Past {
	return &Past{&View{objects: map[string]map[types.NamespacedName]object{}}}
}

// PutNode tells of a node that is new at its slot, or has changed.
func (p *Past) PutNode(slot int32, node *v1.Node) {
	for int(slot) >= len(p.view.rows) {
		p.view.rows = append(p.view.rows, nil)
	}
	row := &Row{Slot: slot}
	if old := p.view.rows[slot]; old != nil {
		*row = *old
	}
	row.Node, row.Allocatable = node, resourcesOf(node.Status.Allocatable, MaxAllocatable)
	p.view.set(slot, row)
}

// DropNode tells that the node at a slot is gone.
func (p *Past) DropNode(slot int32) {
	if p.view.Row(slot) != nil {
		p.view.set(slot, nil)
	}
}

// Place counts a pod on a slot.
func (p *Past) Place(slot int32, pod *v1.Pod) {
	if row := p.view.Row(slot); row != nil {
		p.view.set(slot, row.With(NewPod(pod)))
	}
}

// Remove takes a pod away from a slot.
func (p *Past) Remove(slot int32, uid types.UID) {
	row := p.view.Row(slot)
	if row == nil {
		return
	}
	for _, pod := range row.Pods {
		if pod.UID() == uid {
			p.view.set(slot, row.Without(pod))
			return
		}
	}
}

// PutObject tells of a cluster object.
func (p *Past) PutObject(resource string, o Object) {
	p.view.keep(resource, o)
}

// DropObject tells that it is gone.
func (p *Past) DropObject(resource, namespace, name string) {
	delete(p.view.objects[resource], types.NamespacedName{Namespace: namespace, Name: name})
}

// View is the state, as of a position of the log. The Past ends with it.
func (p *Past) View(seq uint64) *View {
	p.view.seq = seq
	return p.view
}
