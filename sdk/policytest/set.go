package policytest

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/abi/fb"
)

// Placed is a pod that is on a node before the cases are asked.
type Placed struct {
	Node        string
	Pod         Pod
	Terminating bool
}

// Service is a service that selects pods by labels.
type Service struct {
	Namespace, Name string
	Selector        map[string]string
}

// Term is a term of pod affinity or anti-affinity. Selectors are labels; a nil
// one is absent. Without namespaces and a selector of them, it means the pod's own.
type Term struct {
	Selector          map[string]string
	Namespaces        []string
	NamespaceSelector map[string]string
	Topology          string
	Weight            int32
}

// Spread is a topology spread constraint; MinDomains is 1 where it is 0.
type Spread struct {
	Topology            string
	MaxSkew, MinDomains int32
	Soft                bool
	Selector            map[string]string
}

// Volume is a volume of a pod, or one that a node's pods hold. Kind is one of
// the schema's, such as GCEPersistentDisk.
type Volume struct {
	Kind, ID, Pool string
	Monitors       []string
	ReadOnly       bool
}

// setting encodes what stands around the nodes: namespaces and services before
// them, placed pods after.
func (e *encoder) setting(t *Table) (before, after []offset) {
	for _, name := range slices.Sorted(maps.Keys(t.Namespaces)) {
		text, labels := e.CreateString(name), e.kvs(t.Namespaces[name])
		fb.ObjectStart(e.Builder)
		fb.ObjectAddResource(e.Builder, fb.ResourceNamespaces)
		fb.ObjectAddName(e.Builder, text)
		fb.ObjectAddLabels(e.Builder, labels)
		before = append(before, e.object(fb.ObjectEnd(e.Builder)))
	}
	for _, s := range t.Services {
		namespace, name, selector := e.CreateString(s.Namespace), e.CreateString(s.Name), e.selector(s.Selector)
		fb.ObjectStart(e.Builder)
		fb.ObjectAddResource(e.Builder, fb.ResourceServices)
		fb.ObjectAddNamespace(e.Builder, namespace)
		fb.ObjectAddName(e.Builder, name)
		fb.ObjectAddSelector(e.Builder, selector)
		before = append(before, e.object(fb.ObjectEnd(e.Builder)))
	}
	for i := range t.Placed {
		p := &t.Placed[i]
		slot := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.Name == p.Node })
		e.check(slot >= 0, "the table has no node %s", p.Node)
		pod := e.pod(&p.Pod, p.Terminating)
		fb.DeltaStart(e.Builder)
		fb.DeltaAddKind(e.Builder, fb.DeltaKindPodPlaced)
		fb.DeltaAddSlot(e.Builder, int32(slot))
		fb.DeltaAddPod(e.Builder, pod)
		after = append(after, fb.DeltaEnd(e.Builder))
	}
	return before, after
}

func (e *encoder) object(o offset) offset {
	fb.DeltaStart(e.Builder)
	fb.DeltaAddKind(e.Builder, fb.DeltaKindObjectUpsert)
	fb.DeltaAddObject(e.Builder, o)
	return fb.DeltaEnd(e.Builder)
}

// selector is absent where labels are nil.
func (e *encoder) selector(labels map[string]string) offset {
	if labels == nil {
		return 0
	}
	var reqs []offset
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		k, values := e.CreateString(key), e.names([]string{labels[key]})
		fb.RequirementStart(e.Builder)
		fb.RequirementAddKey(e.Builder, k)
		fb.RequirementAddOp(e.Builder, fb.OpIn)
		fb.RequirementAddValues(e.Builder, values)
		reqs = append(reqs, fb.RequirementEnd(e.Builder))
	}
	list := e.CreateVectorOfTables(reqs)
	fb.LabelSelectorStart(e.Builder)
	fb.LabelSelectorAddRequirements(e.Builder, list)
	return fb.LabelSelectorEnd(e.Builder)
}

func (e *encoder) terms(p *Pod, terms []Term) offset {
	var items []offset
	for _, t := range terms {
		spaces := t.Namespaces
		if spaces == nil && t.NamespaceSelector == nil {
			spaces = []string{p.Namespace}
		}
		selector, spaceSelector := e.selector(t.Selector), e.selector(t.NamespaceSelector)
		namespaces, key := e.names(spaces), e.CreateString(t.Topology)
		fb.PodTermStart(e.Builder)
		fb.PodTermAddSelector(e.Builder, selector)
		fb.PodTermAddNamespaces(e.Builder, namespaces)
		fb.PodTermAddNamespaceSelector(e.Builder, spaceSelector)
		fb.PodTermAddTopologyKey(e.Builder, key)
		fb.PodTermAddWeight(e.Builder, t.Weight)
		items = append(items, fb.PodTermEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}

func (e *encoder) spread(p *Pod) offset {
	var items []offset
	for _, s := range p.Spread {
		selector, key := e.selector(s.Selector), e.CreateString(s.Topology)
		fb.SpreadConstraintStart(e.Builder)
		fb.SpreadConstraintAddMaxSkew(e.Builder, s.MaxSkew)
		fb.SpreadConstraintAddTopologyKey(e.Builder, key)
		if s.Soft {
			fb.SpreadConstraintAddWhenUnsatisfiable(e.Builder, fb.UnsatisfiableScheduleAnyway)
		}
		fb.SpreadConstraintAddSelector(e.Builder, selector)
		fb.SpreadConstraintAddMinDomains(e.Builder, max(s.MinDomains, 1))
		items = append(items, fb.SpreadConstraintEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}

func (e *encoder) volumes(list []Volume) offset {
	var items []offset
	for _, v := range list {
		kind, ok := fb.EnumValuesVolumeKind[v.Kind]
		e.check(ok, "unknown kind of volume %q", v.Kind)
		id, pool, monitors := e.CreateString(v.ID), e.CreateString(v.Pool), e.names(v.Monitors)
		fb.VolumeStart(e.Builder)
		fb.VolumeAddKind(e.Builder, kind)
		fb.VolumeAddId(e.Builder, id)
		fb.VolumeAddReadOnly(e.Builder, v.ReadOnly)
		fb.VolumeAddPool(e.Builder, pool)
		fb.VolumeAddMonitors(e.Builder, monitors)
		items = append(items, fb.VolumeEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}
