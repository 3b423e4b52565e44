// Package interpodaffinity is the priority InterPodAffinityPriority. A node's
// score is the sum, over the pods in its part of the topology, of
//
//   - the weights of this pod's preferred affinity terms that they meet, less
//     those of its preferred anti-affinity terms;
//   - the weights of their preferred affinity terms that this pod meets, less
//     those of their preferred anti-affinity terms;
//   - hardPodAffinityWeight (1) for each of their required affinity terms that
//     this pod meets.
//
// The host makes int(100 · (score − min) / (max − min)) of it, 0 where all are
// equal. ignorePreferredTermsOfExistingPods leaves pods without preferred terms
// of their own unscored.
//
// Source: kube-scheduler 1.36, plugin InterPodAffinity (Score).
package interpodaffinity

import (
	"github.com/berth-dev/berth/policies-wasm/placed"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
)

const schema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"hardPodAffinityWeight":{"type":"integer","minimum":0,"maximum":100,"default":1,` +
	`"description":"what each required affinity term of a placed pod counts"},` +
	`"ignorePreferredTermsOfExistingPods":{"type":"boolean","default":false}}}`

func init() {
	guest.Register(guest.Policy{
		Name: "InterPodAffinityPriority", Kind: guest.KindPriority, Scope: guest.ScopeSet,
		Normalize: sdk.NormalizeMinMax, ConfigSchema: schema,
		Description:   "Near the pods that the pod, or they, would be near to, and away from the others.",
		Reads:         sdk.PodLabels | sdk.PodAffinity | sdk.NodeLabels | sdk.Pods | sdk.Namespaces,
		SkipDependsOn: sdk.PodLabels | sdk.PodAffinity | sdk.NodeLabels | sdk.Namespaces | sdk.PodTerms, ReplicasEqual: true,
		Open: open,
	})
}

// weighed is a tally and what one of its counts is worth.
type weighed struct {
	tally  *placed.Tally
	weight int64
}

type policy struct {
	*placed.Index
	hard         int64
	ignoreOthers bool
	carried      []placed.Term
	sums         []weighed
}

func open(s *guest.Setup) (any, error) {
	if err := s.Config.OnlyKeys("hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"); err != nil {
		return nil, err
	}
	p := &policy{Index: placed.New(s.Rows)}
	var err error
	if p.hard, err = s.Config.Int("hardPodAffinityWeight", 0, 100, 1); err != nil {
		return nil, err
	}
	p.ignoreOthers, err = s.Config.Bool("ignorePreferredTermsOfExistingPods", false)
	return p, err
}

func (p *policy) terms(pod *sdk.Pod) []placed.Term {
	p.carried = p.carried[:0]
	if p.hard > 0 {
		p.carry(pod.Affinity, 0)
	}
	p.carry(pod.PreferredAffinity, 1)
	p.carry(pod.PreferredAntiAffinity, -1)
	return p.carried
}

// carry adds terms by their weights and a sign, or by the hard weight.
func (p *policy) carry(terms []facts.PodTerm, sign int64) {
	for i := range terms {
		weight := p.hard
		if sign != 0 {
			weight = sign * int64(terms[i].Weight)
		}
		p.carried = append(p.carried, placed.Term{Pod: &terms[i], Weight: weight})
	}
}

func (p *policy) PodPlaced(slot int32, pod *sdk.Pod)  { p.Place(slot, pod, p.terms(pod)) }
func (p *policy) PodRemoved(slot int32, pod *sdk.Pod) { p.Remove(slot, pod, p.terms(pod)) }
func (p *policy) ObjectChanged(o *facts.Object)       { p.Namespace(o, true) }
func (p *policy) ObjectRemoved(o *facts.Object)       { p.Namespace(o, false) }

func (p *policy) PreScore(pod *sdk.Pod) guest.Answer {
	p.sums = p.sums[:0]
	own := len(pod.PreferredAffinity) > 0 || len(pod.PreferredAntiAffinity) > 0
	if p.ignoreOthers && !own {
		return guest.Skip
	}
	for _, t := range p.Carried(pod) {
		p.sums = append(p.sums, weighed{t, 1})
	}
	p.ask(pod.PreferredAffinity, 1)
	p.ask(pod.PreferredAntiAffinity, -1)
	if len(p.sums) == 0 {
		return guest.Skip
	}
	return guest.AskRows
}

func (p *policy) ask(terms []facts.PodTerm, sign int64) {
	for i := range terms {
		t := p.Matching(terms[i].TopologyKey, terms[i:i+1])
		if t.Nonzero > 0 {
			p.sums = append(p.sums, weighed{t, sign * int64(terms[i].Weight)})
		}
	}
}

func (p *policy) ScoreRows(slots []int32, scores []int64) {
	clear(scores)
	for _, s := range p.sums {
		s.tally.AddTo(scores, slots, s.weight)
	}
}
