package policytest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/berth-dev/berth/abi/fb"
)

// batchSeq is the sequence of the one batch of a table.
const batchSeq = 1

type offset = flatbuffers.UOffsetT

// encoder writes the records of a table.
//
// It is large because the schema has that many tables, and each is written by a
// method of its own.
type encoder struct {
	*flatbuffers.Builder
	err error
}

func newEncoder() *encoder { return &encoder{Builder: flatbuffers.NewBuilder(0)} }

func encodeCluster(t *Table) ([]byte, error) {
	e := newEncoder()
	deltas, placed := e.setting(t)
	for i := range t.Nodes {
		deltas = append(deltas, e.node(int32(i), &t.Nodes[i]))
	}
	list := e.CreateVectorOfTables(append(deltas, placed...))
	fb.BatchStart(e.Builder)
	fb.BatchAddSeq(e.Builder, batchSeq)
	fb.BatchAddDeltas(e.Builder, list)
	e.Finish(fb.BatchEnd(e.Builder))
	return e.FinishedBytes(), e.err
}

func (e *encoder) node(slot int32, n *Node) offset {
	b, name := e.Builder, e.CreateString(n.Name)
	labels, annotations, taints := e.labels(n.Labels), e.labels(n.Annotations), e.taints(n)
	conditions, capacity, usage, images := e.conditions(n), e.capacity(n), e.usage(n), e.images(n)
	held := e.volumes(n.Volumes)
	fb.VolumesStart(b)
	fb.VolumesAddItems(b, held)
	volumes := fb.VolumesEnd(b)
	fb.DeltaStart(b)
	fb.DeltaAddVolumes(b, volumes)
	fb.DeltaAddSlot(b, slot)
	fb.DeltaAddName(b, name)
	fb.DeltaAddLabels(b, labels)
	fb.DeltaAddTaints(b, taints)
	fb.DeltaAddConditions(b, conditions)
	fb.DeltaAddAnnotations(b, annotations)
	fb.DeltaAddCapacity(b, capacity)
	fb.DeltaAddUsage(b, usage)
	fb.DeltaAddImages(b, images)
	return fb.DeltaEnd(b)
}

func (e *encoder) kvs(m map[string]string) offset {
	var items []offset
	for _, key := range slices.Sorted(maps.Keys(m)) {
		k, v := e.CreateString(key), e.CreateString(m[key])
		fb.KVStart(e.Builder)
		fb.KVAddKey(e.Builder, k)
		fb.KVAddValue(e.Builder, v)
		items = append(items, fb.KVEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}

func (e *encoder) labels(m map[string]string) offset {
	items := e.kvs(m)
	fb.LabelsStart(e.Builder)
	fb.LabelsAddItems(e.Builder, items)
	return fb.LabelsEnd(e.Builder)
}

func (e *encoder) taints(n *Node) offset {
	var items []offset
	for _, text := range n.Taints {
		left, effect, _ := strings.Cut(text, ":")
		key, value, _ := strings.Cut(left, "=")
		k, v := e.CreateString(key), e.CreateString(value)
		fb.TaintStart(e.Builder)
		fb.TaintAddKey(e.Builder, k)
		fb.TaintAddValue(e.Builder, v)
		fb.TaintAddEffect(e.Builder, e.effect(effect))
		items = append(items, fb.TaintEnd(e.Builder))
	}
	list := e.CreateVectorOfTables(items)
	fb.TaintsStart(e.Builder)
	fb.TaintsAddItems(e.Builder, list)
	fb.TaintsAddUnschedulable(e.Builder, n.Unschedulable)
	return fb.TaintsEnd(e.Builder)
}

func (e *encoder) effect(name string) fb.Effect {
	if name == "" {
		return fb.EffectNone
	}
	effect, ok := fb.EnumValuesEffect[name]
	e.check(ok, "unknown effect %q", name)
	return effect
}

func (e *encoder) check(ok bool, format string, args ...any) {
	if !ok && e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

func (e *encoder) conditions(n *Node) offset {
	var items []offset
	for _, name := range slices.Sorted(maps.Keys(n.Conditions)) {
		status, ok := fb.EnumValuesConditionStatus[n.Conditions[name]]
		e.check(ok, "unknown status %q", n.Conditions[name])
		text := e.CreateString(name)
		fb.ConditionStart(e.Builder)
		fb.ConditionAddType(e.Builder, text)
		fb.ConditionAddStatus(e.Builder, status)
		items = append(items, fb.ConditionEnd(e.Builder))
	}
	list := e.CreateVectorOfTables(items)
	fb.ConditionsStart(e.Builder)
	fb.ConditionsAddItems(e.Builder, list)
	return fb.ConditionsEnd(e.Builder)
}

func (e *encoder) capacity(n *Node) offset {
	scalars := e.scalars(n.Allocatable)
	fb.CapacityStart(e.Builder)
	fb.CapacityAddAllocatable(e.Builder, e.amounts(n.Allocatable))
	fb.CapacityAddScalars(e.Builder, scalars)
	return fb.CapacityEnd(e.Builder)
}

func (e *encoder) usage(n *Node) offset {
	scalars := e.scalars(n.Requested)
	fb.UsageStart(e.Builder)
	fb.UsageAddRequested(e.Builder, e.amounts(n.Requested))
	fb.UsageAddNonZero(e.Builder, e.amounts(n.Requested))
	fb.UsageAddScalars(e.Builder, scalars)
	return fb.UsageEnd(e.Builder)
}

func (e *encoder) images(n *Node) offset {
	var items []offset
	for _, name := range slices.Sorted(maps.Keys(n.Images)) {
		text := e.CreateString(name)
		fb.ImageStart(e.Builder)
		fb.ImageAddName(e.Builder, text)
		fb.ImageAddSize(e.Builder, n.Images[name])
		items = append(items, fb.ImageEnd(e.Builder))
	}
	list := e.CreateVectorOfTables(items)
	fb.ImagesStart(e.Builder)
	fb.ImagesAddItems(e.Builder, list)
	return fb.ImagesEnd(e.Builder)
}

// amounts must be called between the start and the end of the table that holds them.
func (e *encoder) amounts(m map[string]string) offset {
	return fb.CreateAmounts(e.Builder, e.quantity(m, "cpu"), e.quantity(m, "memory"),
		e.quantity(m, "ephemeral-storage"), e.quantity(m, "pods"))
}

func (e *encoder) scalars(m map[string]string) offset {
	var items []offset
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if name == "cpu" || name == "memory" || name == "ephemeral-storage" || name == "pods" {
			continue
		}
		text := e.CreateString(name)
		fb.ScalarStart(e.Builder)
		fb.ScalarAddName(e.Builder, text)
		fb.ScalarAddValue(e.Builder, e.quantity(m, name))
		items = append(items, fb.ScalarEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}

var units = map[string]float64{
	"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
}

// quantity reads an amount: milli-CPU for cpu, rounded up.
func (e *encoder) quantity(m map[string]string, resource string) int64 {
	text := m[resource]
	if text == "" {
		return 0
	}
	number := strings.TrimRight(text, "mkMGTPi")
	f, err := strconv.ParseFloat(number, 64)
	unit, ok := units[text[len(number):]]
	e.check(err == nil && ok, "%s: %q is no quantity", resource, text)
	if resource == "cpu" {
		unit *= 1000
	}
	return int64(math.Ceil(f * unit))
}

func encodePod(p *Pod, seq uint64, now int64) ([]byte, error) {
	e := newEncoder()
	pod := e.pod(p, false)
	fb.PodInputStart(e.Builder)
	fb.PodInputAddSeq(e.Builder, seq)
	fb.PodInputAddPod(e.Builder, pod)
	fb.PodInputAddNow(e.Builder, now)
	e.Finish(fb.PodInputEnd(e.Builder))
	return e.FinishedBytes(), e.err
}

func (e *encoder) pod(p *Pod, terminating bool) offset {
	b := e.Builder
	namespace, node := e.CreateString(p.Namespace), e.CreateString(p.NodeName)
	labels, annotations, selector := e.kvs(p.Labels), e.kvs(p.Annotations), e.kvs(p.NodeSelector)
	scalars, tolerations, images := e.scalars(p.Requests), e.tolerations(p), e.names(p.Images)
	owners, volumes, spread := e.owners(&p.Controller), e.volumes(p.Volumes), e.spread(p)
	affinity, anti := e.terms(p, p.Affinity), e.terms(p, p.AntiAffinity)
	preferred, preferredAnti := e.terms(p, p.PreferredAffinity), e.terms(p, p.PreferredAntiAffinity)
	fb.PodStart(b)
	fb.PodAddTerminating(b, terminating)
	fb.PodAddAffinity(b, affinity)
	fb.PodAddAntiAffinity(b, anti)
	fb.PodAddPreferredAffinity(b, preferred)
	fb.PodAddPreferredAntiAffinity(b, preferredAnti)
	fb.PodAddSpread(b, spread)
	fb.PodAddVolumes(b, volumes)
	fb.PodAddOwners(b, owners)
	fb.PodAddNamespace(b, namespace)
	fb.PodAddLabels(b, labels)
	fb.PodAddAnnotations(b, annotations)
	fb.PodAddRequests(b, e.amounts(p.Requests))
	fb.PodAddScalars(b, scalars)
	fb.PodAddNonZero(b, e.amounts(p.nonZero()))
	fb.PodAddBestEffort(b, p.Requests["cpu"] == "" && p.Requests["memory"] == "")
	fb.PodAddPriority(b, p.Priority)
	fb.PodAddNodeName(b, node)
	fb.PodAddNodeSelector(b, selector)
	fb.PodAddTolerations(b, tolerations)
	fb.PodAddImages(b, images)
	fb.PodAddContainers(b, int32(len(p.Images)))
	return fb.PodEnd(b)
}

// nonZero has Kubernetes' defaults for a container that asks for nothing.
func (p *Pod) nonZero() map[string]string {
	m := map[string]string{"cpu": "100m", "memory": "200Mi"}
	maps.Copy(m, p.Requests)
	return m
}

func (e *encoder) tolerations(p *Pod) offset {
	var items []offset
	for _, t := range p.Tolerations {
		op, ok := fb.EnumValuesTolerationOp[t.Operator]
		e.check(ok || t.Operator == "", "unknown operator %q", t.Operator)
		key, value := e.CreateString(t.Key), e.CreateString(t.Value)
		fb.TolerationStart(e.Builder)
		fb.TolerationAddKey(e.Builder, key)
		fb.TolerationAddValue(e.Builder, value)
		fb.TolerationAddOp(e.Builder, op)
		fb.TolerationAddEffect(e.Builder, e.effect(t.Effect))
		items = append(items, fb.TolerationEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}

func (e *encoder) owners(c *Controller) offset {
	var items []offset
	if c.Kind != "" {
		kind, name, uid := e.CreateString(c.Kind), e.CreateString(c.Name), e.CreateString(c.UID)
		fb.OwnerStart(e.Builder)
		fb.OwnerAddKind(e.Builder, kind)
		fb.OwnerAddName(e.Builder, name)
		fb.OwnerAddUid(e.Builder, uid)
		fb.OwnerAddController(e.Builder, true)
		items = append(items, fb.OwnerEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}

func (e *encoder) names(list []string) offset {
	var items []offset
	for _, s := range list {
		items = append(items, e.CreateString(s))
	}
	return e.CreateVectorOfTables(items)
}
