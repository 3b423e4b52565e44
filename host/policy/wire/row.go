package wire

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// MaxBatch is how many deltas a caller should put into one batch, so that a
// guest's budget for a call suffices.
const MaxBatch = 128

// Expect tells guests, in the batches that follow, how many slots there will
// be. One that is given a whole cluster then makes room once, where it would
// have to move its columns again and again.
func (e *Encoder) Expect(slots int32) { e.slots = slots }

// Deltas writes a batch of those deltas that a guest of these groups must be
// sent, and tells the sequence of the last of them. It returns nil if none
// concerns the guest: then nothing is to be sent, and the guest's sequence
// stays as it was.
func (e *Encoder) Deltas(deltas []snapshot.Delta, reads abi.Groups) (batch []byte, seq uint64) {
	e.reset()
	for i := range deltas {
		if !concerns(&deltas[i], reads) {
			continue
		}
		e.push(e.delta(&deltas[i], reads))
		seq = deltas[i].Seq
	}
	if len(e.offs) == 0 {
		return nil, 0
	}
	list := e.vector(0)
	fb.BatchStart(e.b)
	fb.BatchAddSeq(e.b, seq)
	fb.BatchAddDeltas(e.b, list)
	fb.BatchAddSlots(e.b, e.slots)
	return e.finish(fb.BatchEnd(e.b)), seq
}

// whole says that a delta brings all of a row, since it is new at its slot.
func whole(d *snapshot.Delta) bool { return d.Groups&abi.NodeGroups == abi.NodeGroups }

func concerns(d *snapshot.Delta, reads abi.Groups) bool {
	switch d.Kind {
	case snapshot.RowUpsert:
		return whole(d) || d.Groups&reads&abi.NodeGroups != 0
	case snapshot.RowRemove:
		return true
	case snapshot.PodPlaced, snapshot.PodRemoved:
		return reads&abi.Pods != 0
	}
	return d.Groups&reads&abi.ClusterGroups != 0
}

func (e *Encoder) delta(d *snapshot.Delta, reads abi.Groups) offset {
	switch d.Kind {
	case snapshot.RowUpsert:
		return e.rowUpsert(d, reads)
	case snapshot.PodPlaced, snapshot.PodRemoved:
		return e.moved(d, reads)
	case snapshot.ObjectUpsert, snapshot.ObjectRemove:
		object := e.object(d)
		e.deltaStart(d)
		fb.DeltaAddObject(e.b, object)
	default:
		e.deltaStart(d)
	}
	return fb.DeltaEnd(e.b)
}

// moved tells of a pod that came or went, by its place if the guest keeps one that is
// like it.
func (e *Encoder) moved(d *snapshot.Delta, reads abi.Groups) offset {
	if !e.alike {
		return e.movedAt(d, e.pod(d.Pod, reads), 0)
	}
	at, has := e.told.place(likeOf(d.Pod, reads))
	var pod offset
	if !has {
		pod = e.pod(d.Pod, reads)
	}
	return e.movedAt(d, pod, at)
}

func (e *Encoder) movedAt(d *snapshot.Delta, pod offset, kept uint8) offset {
	e.deltaStart(d)
	if pod != 0 {
		fb.DeltaAddPod(e.b, pod)
	}
	fb.DeltaAddKept(e.b, kept)
	return fb.DeltaEnd(e.b)
}

func (e *Encoder) deltaStart(d *snapshot.Delta) {
	fb.DeltaStart(e.b)
	fb.DeltaAddKind(e.b, fb.DeltaKind(d.Kind))
	fb.DeltaAddSlot(e.b, d.Slot)
}

// usageOnly is by far the most frequent delta: one for each pod bound.
func (e *Encoder) usageOnly(d *snapshot.Delta) offset {
	usage := e.usage(d.Row)
	e.deltaStart(d)
	fb.DeltaAddUsage(e.b, usage)
	return fb.DeltaEnd(e.b)
}

func (e *Encoder) rowUpsert(d *snapshot.Delta, reads abi.Groups) offset {
	groups := d.Groups & reads
	if groups == abi.NodeUsage && !whole(d) {
		return e.usageOnly(d)
	}
	var parts [9]offset
	var name offset
	if whole(d) {
		name = e.b.CreateString(d.Row.Node.Name)
	}
	for i := range parts {
		if groups&(abi.NodeLabels<<i) != 0 {
			parts[i] = e.part(abi.NodeLabels<<i, d.Row)
		}
	}
	e.deltaStart(d)
	if name != 0 {
		fb.DeltaAddName(e.b, name)
	}
	for i, o := range parts {
		if o != 0 {
			addPart(e, abi.NodeLabels<<i, o)
		}
	}
	return fb.DeltaEnd(e.b)
}

func addPart(e *Encoder, group abi.Groups, o offset) {
	switch group {
	case abi.NodeLabels:
		fb.DeltaAddLabels(e.b, o)
	case abi.NodeTaints:
		fb.DeltaAddTaints(e.b, o)
	case abi.NodeConditions:
		fb.DeltaAddConditions(e.b, o)
	case abi.NodeAnnotations:
		fb.DeltaAddAnnotations(e.b, o)
	case abi.NodeCapacity:
		fb.DeltaAddCapacity(e.b, o)
	case abi.NodeUsage:
		fb.DeltaAddUsage(e.b, o)
	case abi.NodePorts:
		fb.DeltaAddPorts(e.b, o)
	case abi.NodeVolumes:
		fb.DeltaAddVolumes(e.b, o)
	case abi.NodeImages:
		fb.DeltaAddImages(e.b, o)
	}
}

func (e *Encoder) part(group abi.Groups, r *snapshot.Row) offset {
	switch group {
	case abi.NodeLabels:
		return e.labels(r.Node.Labels)
	case abi.NodeTaints:
		return e.taints(&r.Node.Spec)
	case abi.NodeConditions:
		return e.conditions(r.Node.Status.Conditions)
	case abi.NodeAnnotations:
		return e.labels(r.Node.Annotations)
	case abi.NodeCapacity:
		return e.capacity(r)
	case abi.NodeUsage:
		return e.usage(r)
	case abi.NodePorts:
		return e.rowPorts(r)
	case abi.NodeVolumes:
		return e.rowVolumes(r)
	}
	return e.rowImages(r.Node.Status.Images)
}

func (e *Encoder) labels(m map[string]string) offset {
	items := e.kvs(m)
	fb.LabelsStart(e.b)
	if items != 0 {
		fb.LabelsAddItems(e.b, items)
	}
	return fb.LabelsEnd(e.b)
}

func (e *Encoder) taints(spec *v1.NodeSpec) offset {
	mark := len(e.offs)
	for i := range spec.Taints {
		t := &spec.Taints[i]
		key, value := e.str(t.Key), e.str(t.Value)
		fb.TaintStart(e.b)
		fb.TaintAddKey(e.b, key)
		fb.TaintAddValue(e.b, value)
		fb.TaintAddEffect(e.b, effect(t.Effect))
		e.push(fb.TaintEnd(e.b))
	}
	items := e.vector(mark)
	fb.TaintsStart(e.b)
	fb.TaintsAddItems(e.b, items)
	fb.TaintsAddUnschedulable(e.b, spec.Unschedulable)
	return fb.TaintsEnd(e.b)
}

func (e *Encoder) conditions(list []v1.NodeCondition) offset {
	mark := len(e.offs)
	for i := range list {
		c := &list[i]
		e.push(e.condition(string(c.Type), string(c.Status), nanos(c.LastTransitionTime)))
	}
	items := e.vector(mark)
	fb.ConditionsStart(e.b)
	fb.ConditionsAddItems(e.b, items)
	return fb.ConditionsEnd(e.b)
}

func (e *Encoder) condition(name, value string, since int64) offset {
	t := e.str(name)
	fb.ConditionStart(e.b)
	fb.ConditionAddType(e.b, t)
	fb.ConditionAddStatus(e.b, status(value))
	fb.ConditionAddSince(e.b, since)
	return fb.ConditionEnd(e.b)
}

func (e *Encoder) capacity(r *snapshot.Row) offset {
	scalars := e.scalars(r.Allocatable.Scalars)
	fb.CapacityStart(e.b)
	fb.CapacityAddAllocatable(e.b, e.amounts(&r.Allocatable))
	fb.CapacityAddScalars(e.b, scalars)
	return fb.CapacityEnd(e.b)
}

func (e *Encoder) usage(r *snapshot.Row) offset {
	scalars := e.scalars(r.Requested.Scalars)
	fb.UsageStart(e.b)
	fb.UsageAddRequested(e.b, e.amounts(&r.Requested))
	fb.UsageAddNonZero(e.b, e.amounts(&r.NonZero))
	fb.UsageAddScalars(e.b, scalars)
	return fb.UsageEnd(e.b)
}

func (e *Encoder) rowPorts(r *snapshot.Row) offset {
	items := e.ports(r.Ports)
	fb.PortsStart(e.b)
	fb.PortsAddItems(e.b, items)
	return fb.PortsEnd(e.b)
}

func (e *Encoder) ports(list []snapshot.HostPort) offset {
	mark := len(e.offs)
	for i := range list {
		p := &list[i]
		ip, protocol := e.str(p.IP), e.str(p.Protocol)
		fb.HostPortStart(e.b)
		fb.HostPortAddIp(e.b, ip)
		fb.HostPortAddProtocol(e.b, protocol)
		fb.HostPortAddPort(e.b, p.Port)
		e.push(fb.HostPortEnd(e.b))
	}
	return e.vector(mark)
}

// rowImages writes one entry for each name, as the node spells it.
func (e *Encoder) rowImages(list []v1.ContainerImage) offset {
	mark := len(e.offs)
	for i := range list {
		for _, n := range list[i].Names {
			name := e.str(n)
			fb.ImageStart(e.b)
			fb.ImageAddName(e.b, name)
			fb.ImageAddSize(e.b, list[i].SizeBytes)
			e.push(fb.ImageEnd(e.b))
		}
	}
	items := e.vector(mark)
	fb.ImagesStart(e.b)
	fb.ImagesAddItems(e.b, items)
	return fb.ImagesEnd(e.b)
}
