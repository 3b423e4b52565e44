package row

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/internal/text"
)

// Node is one node, as the simple faces see it: a view of one row. It is valid
// during the call that gives it.
//
// Its methods stay functions of their own, so that the compiler makes no panic of
// theirs one with a like one of the author's, see withinFilter.
type Node struct {
	rows *Table
	slot int32
	// i is the row's place in the block of rows that are looked up together.
	i      uint32
	block  []int32
	follow bool // the block's rows follow one another

	allocatable, requested rowAsks
}

// Name of the node. It reads NodeName, and panics in a policy that does not: the
// host asks such a one about one of several equal nodes, and its answer is for all.
//
//go:noinline
func (n *Node) Name() string {
	if n.rows.reads&abi.NodeName == 0 {
		panic("Node.Name: the policy has to say that it Reads sdk.NodeName")
	}
	n.rows.depends.look(abi.NodeName)
	return n.rows.Symbols.String(n.rows.Name[n.slot])
}

// Slot is the row's number. It reads NodeName, as Name does.
func (n *Node) Slot() int32 {
	n.rows.depends.look(abi.NodeName & n.rows.reads)
	return n.slot
}

// Label returns the value of a label, "" if there is none. It reads NodeLabels.
//
//go:noinline
func (n *Node) Label(key string) string {
	n.rows.depends.lookLabel(key)
	return n.rows.Symbols.String(n.rows.labelsOf(n.rows.labels, n.slot).ValueOf(key))
}

// HasLabel says whether the node has the label. It reads NodeLabels.
//
//go:noinline
func (n *Node) HasLabel(key string) bool {
	n.rows.depends.lookLabel(key)
	return n.rows.labelsOf(n.rows.labels, n.slot).ValueOf(key) != facts.NoSymbol
}

// Labels of the node. It reads NodeLabels.
//
//go:noinline
func (n *Node) Labels() facts.Labels {
	n.rows.depends.look(abi.NodeLabels)
	return n.rows.Labels(n.slot)
}

// Annotation returns the value of an annotation, "" if there is none. It reads NodeAnnotations.
//
//go:noinline
func (n *Node) Annotation(key string) string {
	n.rows.depends.look(abi.NodeAnnotations)
	return n.rows.Symbols.String(n.rows.labelsOf(n.rows.annotations, n.slot).ValueOf(key))
}

// Taints of the node. It reads NodeTaints.
//
//go:noinline
func (n *Node) Taints() []facts.Taint {
	n.rows.depends.look(abi.NodeTaints)
	return n.rows.Taints(n.slot)
}

// Unschedulable says whether the node is cordoned. It reads NodeTaints.
//
//go:noinline
func (n *Node) Unschedulable() bool {
	n.rows.depends.look(abi.NodeTaints)
	return n.rows.Unschedulable != nil && n.rows.Unschedulable[n.slot]
}

// Condition returns the status of a condition, Absent if there is none. It reads NodeConditions.
//
//go:noinline
func (n *Node) Condition(name string) facts.ConditionStatus {
	n.rows.depends.look(abi.NodeConditions)
	if n.rows.Conditions == nil {
		return facts.Absent
	}
	return facts.ConditionOf(n.rows.Conditions[n.slot], n.rows.Symbols.Lookup(name))
}

// Allocatable is what the node has of a resource: milli-CPU for cpu, else
// bytes or a count. It reads NodeCapacity.
func (n *Node) Allocatable(resource string) int64 {
	if e := &n.allocatable.table[text.Place(resource)]; e.place == text.Address(resource) {
		return n.allocatable.values[(e.first+n.i)%(facts.MaxAsked*blockRows)]
	}
	return n.seekAllocatable(resource)
}

//go:noinline
func (n *Node) seekAllocatable(resource string) int64 {
	n.rows.depends.look(abi.NodeCapacity)
	return n.seek(&n.allocatable, resource, n.rows.allocatable())
}

// Requested is what the node's pods ask of a resource. It reads NodeUsage.
func (n *Node) Requested(resource string) int64 {
	if e := &n.requested.table[text.Place(resource)]; e.place == text.Address(resource) {
		return n.requested.values[(e.first+n.i)%(facts.MaxAsked*blockRows)]
	}
	return n.seekRequested(resource)
}

//go:noinline
func (n *Node) seekRequested(resource string) int64 {
	n.rows.depends.look(abi.NodeUsage)
	return n.seek(&n.requested, resource, n.rows.requested())
}

// Free is what is left of a resource; negative where the node is overcommitted.
// It reads NodeCapacity and NodeUsage.
//
//go:noinline
func (n *Node) Free(resource string) int64 { return n.Allocatable(resource) - n.Requested(resource) }

// Ports that the node's pods hold. It reads NodePorts.
//
//go:noinline
func (n *Node) Ports() []facts.HostPort {
	n.rows.depends.look(abi.NodePorts)
	if n.rows.Ports == nil {
		return nil
	}
	return n.rows.Ports[n.slot]
}

// Volumes that the node's pods hold. It reads NodeVolumes.
//
//go:noinline
func (n *Node) Volumes() []facts.Volume {
	n.rows.depends.look(abi.NodeVolumes)
	if n.rows.Volumes == nil {
		return nil
	}
	return n.rows.Volumes[n.slot]
}

// Images that the node has. It reads NodeImages.
//
//go:noinline
func (n *Node) Images() []facts.Image {
	n.rows.depends.look(abi.NodeImages)
	if n.rows.Images == nil {
		return nil
	}
	return n.rows.Images[n.slot]
}

// ImageSize is the size in bytes of an image that the node has, 0 if it has not. It reads NodeImages.
//
//go:noinline
func (n *Node) ImageSize(name string) int64 {
	sym := n.rows.Symbols.Lookup(name)
	for _, i := range n.Images() {
		if i.Name == sym {
			return i.Size
		}
	}
	return 0
}

// Text is the string that a symbol of this node stands for.
//
//go:noinline
func (n *Node) Text(s facts.Symbol) string { return n.rows.Symbols.String(s) }
