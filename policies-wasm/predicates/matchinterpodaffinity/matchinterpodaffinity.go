// Package matchinterpodaffinity is the predicate MatchInterPodAffinity. A node
// is refused
//
//   - for good, if it lacks the topology key of a required affinity term, or if
//     its part of the topology holds no pod that meets all the terms. Where no
//     placed pod meets them but the pod itself does, it may be the first;
//   - if its part of the topology holds a pod that meets a required
//     anti-affinity term;
//   - if its part of the topology holds a pod with a required anti-affinity term
//     that this pod meets.
//
// A term's namespaces are those that it lists and those that its namespace
// selector takes.
//
// Source: kube-scheduler 1.36, plugin InterPodAffinity (Filter).
package matchinterpodaffinity

import (
	"github.com/berth-dev/berth/policies-wasm/placed"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
)

func init() {
	guest.Register(guest.Policy{
		Name: "MatchInterPodAffinity", Kind: guest.KindPredicate, Scope: guest.ScopeSet,
		Description:   "The pod's required affinity and anti-affinity to other pods holds, and theirs to it.",
		Reads:         sdk.PodLabels | sdk.PodAffinity | sdk.NodeLabels | sdk.Pods | sdk.Namespaces,
		SkipDependsOn: sdk.PodLabels | sdk.PodAffinity | sdk.NodeLabels | sdk.Namespaces | sdk.PodTerms, ReplicasEqual: true,
		Open: open,
	})
}

type policy struct {
	*placed.Index
	carried []placed.Term

	affinity, anti, against []*placed.Tally
	// first: no placed pod meets the pod's affinity terms, but it does itself.
	first bool

	refusedAffinity, refusedAnti, refusedOthers guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	return &policy{
		Index:           placed.New(s.Rows),
		refusedAffinity: s.Reasons.ID(sdk.RejectFinal("node(s) didn't match pod affinity rules")),
		refusedAnti:     s.Reasons.ID(sdk.Reject("node(s) didn't match pod anti-affinity rules")),
		refusedOthers:   s.Reasons.ID(sdk.Reject("node(s) didn't satisfy existing pods anti-affinity rules")),
	}, s.Config.OnlyKeys()
}

func (p *policy) terms(pod *sdk.Pod) []placed.Term {
	p.carried = p.carried[:0]
	for i := range pod.AntiAffinity {
		p.carried = append(p.carried, placed.Term{Pod: &pod.AntiAffinity[i], Weight: 1})
	}
	return p.carried
}

func (p *policy) PodPlaced(slot int32, pod *sdk.Pod)  { p.Place(slot, pod, p.terms(pod)) }
func (p *policy) PodRemoved(slot int32, pod *sdk.Pod) { p.Remove(slot, pod, p.terms(pod)) }
func (p *policy) ObjectChanged(o *facts.Object)       { p.Namespace(o, true) }
func (p *policy) ObjectRemoved(o *facts.Object)       { p.Namespace(o, false) }

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	p.against = p.Carried(pod)
	p.affinity, p.anti = p.affinity[:0], p.anti[:0]
	if len(p.against) == 0 && len(pod.Affinity) == 0 && len(pod.AntiAffinity) == 0 {
		return guest.Skip
	}
	none := true
	for i := range pod.Affinity {
		t := p.Matching(pod.Affinity[i].TopologyKey, pod.Affinity)
		none = none && t.Nonzero == 0
		p.affinity = append(p.affinity, t)
	}
	p.first = none && p.Meets(pod.Affinity, pod.Namespace, pod.Labels.Pairs)
	for i := range pod.AntiAffinity {
		p.anti = append(p.anti, p.Matching(pod.AntiAffinity[i].TopologyKey, pod.AntiAffinity[i:i+1]))
	}
	return guest.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	clear(verdicts)
	p.refuse(p.against, slots, verdicts, p.refusedOthers)
	p.refuse(p.anti, slots, verdicts, p.refusedAnti)
	for _, t := range p.affinity {
		domains, counts := t.Topology.Domain, t.Counts
		for i, slot := range slots {
			d := domains[slot]
			if p.first && d >= 0 || uint32(d) < uint32(len(counts)) && counts[d] > 0 {
				continue
			}
			verdicts[i] = p.refusedAffinity
		}
	}
}

// refuse writes a reason where one of tallies counts anything. What stands
// there already gives way: the last reason is the first that counts.
func (p *policy) refuse(tallies []*placed.Tally, slots []int32, verdicts []guest.ReasonID, reason guest.ReasonID) {
	for _, t := range tallies {
		if t.Nonzero == 0 {
			continue
		}
		for i, slot := range slots {
			if t.At(slot) > 0 {
				verdicts[i] = reason
			}
		}
	}
}
