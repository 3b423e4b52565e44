package snapshot

import (
	"github.com/berth-dev/berth/abi"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cluster is the present state: rows in fixed slots, what is placed on them,
// and the log of how it came to be. It belongs to one goroutine; the rows,
// pods and deltas that it hands out are never changed.
type Cluster struct {
	table
	history history
	slots   map[string]int32
	free    []int32
	placed  map[types.UID]place
	// priorities counts the placed pods of each priority.
	priorities map[int32]int
	// strays are pods on nodes that are not known (yet, or any more).
	strays map[string][]*Pod
	objects
	nominated map[types.UID]nomination
}

// place is where a pod counts.
type place struct {
	pod  *Pod
	node string
}

// New returns an empty cluster whose log takes about limit bytes at most,
// 256 MiB where limit is 0.
func New(limit int) *Cluster {
	return &Cluster{
		history:    newHistory(limit),
		slots:      map[string]int32{},
		placed:     map[types.UID]place{},
		priorities: map[int32]int{},
		strays:     map[string][]*Pod{},
		objects:    map[string]map[types.NamespacedName]object{},
		nominated:  map[types.UID]nomination{},
	}
}

// Seq implements Log.
func (c *Cluster) Seq() uint64 { return c.history.seq }

// Since implements Log.
func (c *Cluster) Since(seq uint64) (Deltas, bool) { return c.history.since(seq) }

// Nodes is how many nodes there are.
func (c *Cluster) Nodes() int { return len(c.slots) }

// Slot returns the slot of a node.
func (c *Cluster) Slot(node string) (int32, bool) {
	slot, ok := c.slots[node]
	return slot, ok
}

// Base implements Log.
func (c *Cluster) Base(yield func(Delta) bool) { base(c.rows, c.objects, c.history.seq, yield) }

// UpsertNode adds a node or changes it, and says which groups changed.
func (c *Cluster) UpsertNode(node *v1.Node) abi.Groups {
	slot, known := c.slots[node.Name]
	if !known {
		c.addNode(node)
		return abi.NodeGroups
	}
	old := c.rows[slot]
	allocatable := resourcesOf(node.Status.Allocatable, MaxAllocatable)
	groups := changedGroups(old, node, &allocatable)
	if groups == 0 {
		return 0
	}
	row := *old
	row.Node, row.Allocatable = node, allocatable
	c.history.next()
	c.put(&row, groups)
	c.history.note(&nodeChange{before: old.Node, after: node, groups: groups}, slot, 0, nodeWeight(old.Node))
	return groups
}

func (c *Cluster) addNode(node *v1.Node) {
	row := &Row{Slot: c.takeSlot(), Node: node, Allocatable: resourcesOf(node.Status.Allocatable, MaxAllocatable)}
	c.slots[node.Name] = row.Slot
	for _, pod := range c.strays[node.Name] {
		row.count(pod)
	}
	c.history.next()
	c.put(row, abi.NodeGroups)
	c.history.note(&nodeChange{after: node, groups: abi.NodeGroups}, row.Slot, 0, nodeBytes)
	for _, pod := range row.Pods {
		c.tellPod(PodPlaced, pod, row.Slot, came, 0)
	}
	delete(c.strays, node.Name)
}

func (c *Cluster) takeSlot() int32 {
	if n := len(c.free); n > 0 {
		slot := c.free[n-1]
		c.free = c.free[:n-1]
		return slot
	}
	c.rows = append(c.rows, nil)
	return int32(len(c.rows) - 1)
}

// put makes row the present one at its slot. The one before is held by deltas.
func (c *Cluster) put(row *Row, groups abi.Groups) {
	c.set(row.Slot, row)
	c.history.tell(Delta{Kind: RowUpsert, Slot: row.Slot, Groups: groups, Row: row}, rowBytes)
}

// tellPod logs that a pod came or went; holds is what its deltas keep alive.
func (c *Cluster) tellPod(kind DeltaKind, pod *Pod, slot int32, index, holds int) {
	c.history.tell(Delta{Kind: kind, Slot: slot, Groups: pod.groups(), Pod: pod}, holds)
	c.history.note(pod.ref, slot, int32(index), 0)
}

// RemoveNode takes a node away. Its pods count again if it comes back.
func (c *Cluster) RemoveNode(name string) bool {
	slot, ok := c.slots[name]
	if !ok {
		return false
	}
	row := c.rows[slot]
	c.history.next()
	for _, pod := range row.Pods {
		c.tellPod(PodRemoved, pod, slot, 0, 0)
	}
	c.history.tell(Delta{Kind: RowRemove, Slot: slot, Groups: abi.NodeGroups}, 0)
	c.history.note(&nodeChange{before: row.Node, groups: abi.NodeGroups}, slot, 0, nodeWeight(row.Node))
	if len(row.Pods) > 0 {
		c.strays[name] = append([]*Pod(nil), row.Pods...)
	}
	delete(c.slots, name)
	c.set(slot, nil)
	c.free = append(c.free, slot)
	return true
}

// changedGroups compares a row with a new state of its node.
func changedGroups(old *Row, node *v1.Node, allocatable *Resources) abi.Groups {
	var groups abi.Groups
	if !sameTexts(old.Node.Labels, node.Labels) {
		groups |= abi.NodeLabels
	}
	if !sameTexts(old.Node.Annotations, node.Annotations) {
		groups |= abi.NodeAnnotations
	}
	if !sameTaints(old.Node, node) {
		groups |= abi.NodeTaints
	}
	if !sameConditions(old.Node.Status.Conditions, node.Status.Conditions) {
		groups |= abi.NodeConditions
	}
	if !old.Allocatable.equal(allocatable) {
		groups |= abi.NodeCapacity
	}
	if !sameImages(old.Node.Status.Images, node.Status.Images) {
		groups |= abi.NodeImages
	}
	return groups
}

func sameTexts(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

func sameTaints(a, b *v1.Node) bool {
	if a.Spec.Unschedulable != b.Spec.Unschedulable || len(a.Spec.Taints) != len(b.Spec.Taints) {
		return false
	}
	for i := range a.Spec.Taints {
		s, t := &a.Spec.Taints[i], &b.Spec.Taints[i]
		if s.Key != t.Key || s.Value != t.Value || s.Effect != t.Effect {
			return false
		}
	}
	return true
}

// sameConditions leaves heartbeats, reasons and messages out.
func sameConditions(a, b []v1.NodeCondition) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Type != b[i].Type || a[i].Status != b[i].Status || !a[i].LastTransitionTime.Equal(&b[i].LastTransitionTime) {
			return false
		}
	}
	return true
}

func sameImages(a, b []v1.ContainerImage) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].SizeBytes != b[i].SizeBytes || len(a[i].Names) != len(b[i].Names) {
			return false
		}
		for j := range a[i].Names {
			if a[i].Names[j] != b[i].Names[j] {
				return false
			}
		}
	}
	return true
}
