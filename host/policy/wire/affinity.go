package wire

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi/fb"
)

func requiredTerms(o *v1.Pod) *v1.NodeSelector {
	if a := o.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func (e *Encoder) affinity(c *podParts, o *v1.Pod) {
	c.nodeName, c.nodeSelector = e.str(o.Spec.NodeName), e.kvs(o.Spec.NodeSelector)
	if s := requiredTerms(o); s != nil {
		c.required = e.nodeTerms(s.NodeSelectorTerms)
	}
	c.spread = e.spread(o)
	a := o.Spec.Affinity
	if a == nil {
		return
	}
	if n := a.NodeAffinity; n != nil {
		c.preferred = e.preferredNodeTerms(n.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAffinity; p != nil {
		c.affinity = e.podTerms(o, p.RequiredDuringSchedulingIgnoredDuringExecution)
		c.prefAffinity = e.weightedTerms(o, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		c.anti = e.podTerms(o, p.RequiredDuringSchedulingIgnoredDuringExecution)
		c.prefAnti = e.weightedTerms(o, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (e *Encoder) nodeTerms(list []v1.NodeSelectorTerm) offset {
	mark := len(e.offs)
	for i := range list {
		e.push(e.nodeTerm(&list[i]))
	}
	return e.vector(mark)
}

func (e *Encoder) nodeTerm(t *v1.NodeSelectorTerm) offset {
	expressions, fields := e.nodeRequirements(t.MatchExpressions), e.nodeRequirements(t.MatchFields)
	fb.NodeTermStart(e.b)
	fb.NodeTermAddExpressions(e.b, expressions)
	fb.NodeTermAddFields(e.b, fields)
	return fb.NodeTermEnd(e.b)
}

func (e *Encoder) nodeRequirements(list []v1.NodeSelectorRequirement) offset {
	mark := len(e.offs)
	for i := range list {
		e.push(e.requirement(list[i].Key, nodeOp(list[i].Operator), list[i].Values))
	}
	return e.vector(mark)
}

func (e *Encoder) preferredNodeTerms(list []v1.PreferredSchedulingTerm) offset {
	mark := len(e.offs)
	for i := range list {
		term := e.nodeTerm(&list[i].Preference)
		fb.PreferredNodeTermStart(e.b)
		fb.PreferredNodeTermAddWeight(e.b, list[i].Weight)
		fb.PreferredNodeTermAddTerm(e.b, term)
		e.push(fb.PreferredNodeTermEnd(e.b))
	}
	return e.vector(mark)
}

func (e *Encoder) podTerms(o *v1.Pod, list []v1.PodAffinityTerm) offset {
	mark := len(e.offs)
	for i := range list {
		e.push(e.podTerm(o, &list[i], 0))
	}
	return e.vector(mark)
}

func (e *Encoder) weightedTerms(o *v1.Pod, list []v1.WeightedPodAffinityTerm) offset {
	mark := len(e.offs)
	for i := range list {
		e.push(e.podTerm(o, &list[i].PodAffinityTerm, list[i].Weight))
	}
	return e.vector(mark)
}

// podTerm resolves the term's namespaces, and puts matchLabelKeys and
// mismatchLabelKeys into its selector, as the API server does on create.
func (e *Encoder) podTerm(o *v1.Pod, t *v1.PodAffinityTerm, weight int32) offset {
	selector := e.selector(t.LabelSelector, func() {
		e.keyed(o, t.MatchLabelKeys, fb.OpIn)
		e.keyed(o, t.MismatchLabelKeys, fb.OpNotIn)
	})
	spaces := t.Namespaces
	if len(spaces) == 0 && t.NamespaceSelector == nil {
		spaces = []string{o.Namespace}
	}
	namespaces, nsSelector, key := e.strs(spaces), e.selector(t.NamespaceSelector, nil), e.str(t.TopologyKey)
	fb.PodTermStart(e.b)
	fb.PodTermAddSelector(e.b, selector)
	fb.PodTermAddNamespaces(e.b, namespaces)
	fb.PodTermAddNamespaceSelector(e.b, nsSelector)
	fb.PodTermAddTopologyKey(e.b, key)
	fb.PodTermAddWeight(e.b, weight)
	return fb.PodTermEnd(e.b)
}

func (e *Encoder) keyed(o *v1.Pod, keys []string, op fb.Op) {
	for _, k := range keys {
		if v, ok := o.Labels[k]; ok {
			e.push(e.requirement(k, op, []string{v}))
		}
	}
}

func (e *Encoder) spread(o *v1.Pod) offset {
	mark := len(e.offs)
	for i := range o.Spec.TopologySpreadConstraints {
		e.push(e.constraint(o, &o.Spec.TopologySpreadConstraints[i]))
	}
	return e.vector(mark)
}

func (e *Encoder) constraint(o *v1.Pod, c *v1.TopologySpreadConstraint) offset {
	selector := e.selector(c.LabelSelector, func() { e.keyed(o, c.MatchLabelKeys, fb.OpIn) })
	key := e.str(c.TopologyKey)
	fb.SpreadConstraintStart(e.b)
	fb.SpreadConstraintAddMaxSkew(e.b, c.MaxSkew)
	fb.SpreadConstraintAddTopologyKey(e.b, key)
	if c.WhenUnsatisfiable == v1.ScheduleAnyway {
		fb.SpreadConstraintAddWhenUnsatisfiable(e.b, fb.UnsatisfiableScheduleAnyway)
	}
	fb.SpreadConstraintAddSelector(e.b, selector)
	if c.MinDomains != nil {
		fb.SpreadConstraintAddMinDomains(e.b, *c.MinDomains)
	}
	if p := c.NodeAffinityPolicy; p != nil && *p == v1.NodeInclusionPolicyIgnore {
		fb.SpreadConstraintAddNodeAffinity(e.b, fb.InclusionIgnore)
	}
	if p := c.NodeTaintsPolicy; p != nil && *p == v1.NodeInclusionPolicyHonor {
		fb.SpreadConstraintAddNodeTaints(e.b, fb.InclusionHonor)
	}
	return fb.SpreadConstraintEnd(e.b)
}
