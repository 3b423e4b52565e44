package snapshot

import (
	"hash/maphash"
	"math/bits"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
)

// RowHashes holds one hash for each group of facts about a node, by the group's
// place in RowGroups: rows with equal hashes are equal in that group to all who
// are told of it.
type RowHashes [10]uint64

// RowGroups are the groups of which a row has a hash.
const RowGroups = abi.NodeGroups | abi.NodeName

// rowGroups are RowGroups by their places in RowHashes.
var rowGroups = [len(RowHashes{})]abi.Groups{
	abi.NodeLabels, abi.NodeTaints, abi.NodeConditions, abi.NodeAnnotations, abi.NodeCapacity,
	abi.NodeUsage, abi.NodePorts, abi.NodeVolumes, abi.NodeImages, abi.NodeName,
}

// Of folds the hashes of the given groups into one.
func (h *RowHashes) Of(groups abi.Groups) uint64 {
	var sum uint64
	left := (groups&abi.NodeGroups)/abi.NodeLabels | nameBit(groups)
	for ; left != 0; left &= left - 1 {
		i := bits.TrailingZeros32(uint32(left))
		sum = mix(sum ^ h[i] + uint64(i) + 1)
	}
	return sum
}

func nameBit(groups abi.Groups) abi.Groups {
	if groups&abi.NodeName != 0 {
		return 1 << (len(RowHashes{}) - 1)
	}
	return 0
}

// Hash computes the row's hashes of the given groups anew; the others in h stay.
func (r *Row) Hash(h *RowHashes, groups abi.Groups) {
	var stack [1024]byte
	f := facts{buf: stack[:0]}
	for i, group := range rowGroups {
		if groups&group == 0 {
			continue
		}
		r.facts(&f, group)
		h[i] = maphash.Bytes(seed, f.buf)
		f.buf = f.buf[:0]
	}
}

func (r *Row) facts(f *facts, group abi.Groups) {
	switch group {
	case abi.NodeLabels:
		f.texts(r.Node.Labels)
	case abi.NodeTaints:
		taintFacts(f, &r.Node.Spec)
	case abi.NodeConditions:
		conditionFacts(f, r.Node.Status.Conditions)
	case abi.NodeAnnotations:
		f.texts(r.Node.Annotations)
	case abi.NodeCapacity:
		f.resources(&r.Allocatable)
		f.number(r.Allocatable.Pods)
	case abi.NodeUsage:
		f.resources(&r.Requested)
		f.number(r.Requested.Pods)
		f.resources(&r.NonZero)
		f.number(r.NonZero.Pods)
	case abi.NodePorts:
		for i := range r.Ports {
			f.text(r.Ports[i].IP)
			f.text(r.Ports[i].Protocol)
			f.number(int64(r.Ports[i].Port))
		}
	case abi.NodeVolumes:
		heldFacts(f, r.Pods)
	case abi.NodeImages:
		rowImageFacts(f, r.Node.Status.Images)
	case abi.NodeName:
		f.text(r.Node.Name)
	}
}

func taintFacts(f *facts, spec *v1.NodeSpec) {
	f.flag(spec.Unschedulable)
	for i := range spec.Taints {
		t := &spec.Taints[i]
		f.text(t.Key)
		f.text(t.Value)
		f.text(string(t.Effect))
	}
}

func conditionFacts(f *facts, list []v1.NodeCondition) {
	for i := range list {
		c := &list[i]
		f.text(string(c.Type))
		f.text(string(c.Status))
		f.number(c.LastTransitionTime.UnixNano())
	}
}

// heldFacts are about the volumes of a row's pods, as far as they count by node,
// in the order in which the pods came.
func heldFacts(f *facts, pods []*Pod) {
	for _, p := range pods {
		if p.volumes {
			f.number(int64(p.Hash[bits.TrailingZeros32(uint32(abi.PodVolumes))]))
		}
	}
}

func rowImageFacts(f *facts, list []v1.ContainerImage) {
	for i := range list {
		f.number(list[i].SizeBytes)
		f.number(int64(len(list[i].Names)))
		for _, name := range list[i].Names {
			f.text(name)
		}
	}
}
