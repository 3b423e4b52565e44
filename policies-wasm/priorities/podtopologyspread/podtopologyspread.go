// Package podtopologyspread is the priority PodTopologySpreadPriority: the soft
// topology spread constraints (whenUnsatisfiable: ScheduleAnyway). Over them,
//
//	raw = round(Σ pods in the node's part · ln(parts + 2) + maxSkew − 1)
//
// where parts is the number of different parts among the feasible nodes, and by
// kubernetes.io/hostname the pods are the node's own. The score is
// int(100 · (max + min − raw) / max), 100 where max is 0, and 0 for a node that
// lacks a topology key. Which pods and nodes count: package spread.
//
// A pod without constraints gets the default ones, over the pods that its
// services and its controller select: by default (defaultingType: System) those
// of kube-scheduler, hostname with maxSkew 3 and topology.kubernetes.io/zone
// with maxSkew 5, which nodes may lack.
//
// Source: kube-scheduler 1.36, plugin PodTopologySpread (Score).
package podtopologyspread

import (
	"math"

	"github.com/berth-dev/berth/policies-wasm/spread"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
)

func init() {
	guest.Register(guest.Policy{
		Name: "PodTopologySpreadPriority", Kind: guest.KindPriority, Scope: guest.ScopeSet,
		Normalize: sdk.NormalizeNone, ConfigSchema: schema,
		Description: "The fewer of the pods that the pod should keep apart from share the node's zone or name, the higher.",
		Reads: sdk.PodLabels | sdk.PodAffinity | sdk.PodTolerations |
			sdk.NodeLabels | sdk.NodeTaints | sdk.Pods | sdk.Services | sdk.Owners,
		SkipDependsOn: sdk.PodLabels | sdk.PodAffinity | sdk.Services | sdk.Owners, ReplicasEqual: true,
		Open: open,
	})
}

type policy struct {
	*spread.Counter
	*spread.Owners
	defaults []facts.SpreadConstraint
	// system: the defaults are kube-scheduler's own.
	system   bool
	hostname facts.Symbol

	soft    []facts.SpreadConstraint
	parts   []spread.Part
	all     bool
	seen    []bool
	weights []float64
	byPart  []int64
	sums    []float64
	values  []float64
}

func open(s *guest.Setup) (any, error) {
	p := &policy{
		Counter: spread.New(s.Rows), Owners: spread.NewOwners(s.Rows.Symbols, true),
		hostname: s.Rows.Symbols.Intern("kubernetes.io/hostname"),
	}
	return p, p.configure(s.Config, s.Rows.Symbols)
}

func (p *policy) PreScore(pod *sdk.Pod) guest.Answer {
	p.soft = p.soft[:0]
	p.all = len(pod.Spread) > 0 || !p.system
	if len(pod.Spread) > 0 {
		for i := range pod.Spread {
			if pod.Spread[i].Soft {
				p.soft = append(p.soft, pod.Spread[i])
			}
		}
	} else if len(p.defaults) > 0 {
		p.useDefaults(pod)
	}
	if len(p.soft) == 0 {
		return guest.Skip
	}
	p.parts = p.Count(pod, p.soft, p.all, true)
	return guest.AskRows
}

func (p *policy) useDefaults(pod *sdk.Pod) {
	selector := p.Selector(pod)
	if len(selector.Reqs) == 0 {
		return
	}
	p.soft = append(p.soft, p.defaults...)
	for i := range p.soft {
		p.soft[i].Selector = selector
	}
}

func (p *policy) ScoreRows(slots []int32, scores []int64) {
	p.weigh(slots)
	if len(p.parts) == 1 && p.parts[0].Constraint.TopologyKey != p.hostname {
		p.scoreByPart(slots, scores)
		return
	}
	p.rate(slots, scores)
	least, most := int64(math.MaxInt64), int64(0)
	for i, raw := range scores {
		if raw < 0 {
			continue
		}
		scores[i] = round(p.sums[i])
		least, most = min(least, scores[i]), max(most, scores[i])
	}
	for i, raw := range scores {
		switch {
		case raw < 0:
			scores[i] = 0
		case most == 0:
			scores[i] = 100
		default:
			scores[i] = 100 * (most + least - raw) / most
		}
	}
}

// scoreByPart is for one constraint that is not by node: then all nodes of a
// part have the same score, and those without a part too.
func (p *policy) scoreByPart(slots []int32, scores []int64) {
	part := &p.parts[0]
	domains, skew := part.Topology.Domain, float64(part.Constraint.MaxSkew-1)
	p.byPart = p.byPart[:0]
	least, most := int64(math.MaxInt64), int64(0)
	for d := -1; d < part.Topology.Len(); d++ {
		raw := int64(0)
		if d >= 0 {
			raw = round(float64(part.Of(int32(d)))*p.weights[0] + skew)
		}
		p.byPart = append(p.byPart, raw)
		if p.seen[d+1] && (d >= 0 || !p.all) {
			least, most = min(least, raw), max(most, raw)
		}
	}
	for d, raw := range p.byPart {
		switch {
		case d == 0 && p.all:
			p.byPart[d] = 0
		case most == 0:
			p.byPart[d] = 100
		default:
			p.byPart[d] = 100 * (most + least - raw) / most
		}
	}
	byPart := p.byPart
	for i, slot := range slots {
		scores[i] = byPart[domains[slot]+1]
	}
}

// round is math.Round of what is not negative, and no call for each node.
func round(x float64) int64 {
	n := int64(x)
	if x-float64(n) >= 0.5 {
		n++
	}
	return n
}

// rate sums up the nodes, part by part, and marks by −1 those that are ignored.
func (p *policy) rate(slots []int32, scores []int64) {
	clear(scores)
	p.sums = spread.Zeros(p.sums, len(slots))
	for k := range p.parts {
		part := &p.parts[k]
		domains := part.Topology.Domain
		if part.Constraint.TopologyKey == p.hostname {
			p.rateNodes(part, p.weights[k], slots)
		} else {
			p.rateParts(part, p.weights[k], slots)
		}
		if !p.all {
			continue
		}
		for i, slot := range slots {
			if domains[slot] < 0 {
				scores[i] = -1
			}
		}
	}
}

// rateNodes adds what is on each node itself.
func (p *policy) rateNodes(part *spread.Part, weight float64, slots []int32) {
	domains, skew := part.Topology.Domain, float64(part.Constraint.MaxSkew-1)
	for i, slot := range slots {
		if domains[slot] >= 0 {
			p.sums[i] += float64(part.OnNode(slot))*weight + skew
		}
	}
}

// rateParts adds what is in the part of each node.
func (p *policy) rateParts(part *spread.Part, weight float64, slots []int32) {
	domains, skew := part.Topology.Domain, float64(part.Constraint.MaxSkew-1)
	p.values = p.values[:0]
	for d := range part.Topology.Len() {
		p.values = append(p.values, float64(part.Of(int32(d)))*weight+skew)
	}
	values, sums := p.values, p.sums
	for i, slot := range slots {
		if d := domains[slot]; d >= 0 {
			sums[i] += values[d]
		}
	}
}

func (p *policy) ignored(slot int32) bool { return p.all && !spread.HasAll(p.parts, slot) }

// weigh makes up for topologies of few parts, which hold more pods in each.
func (p *policy) weigh(slots []int32) {
	p.weights = p.weights[:0]
	for i := range p.parts {
		n := 0
		if p.parts[i].Constraint.TopologyKey == p.hostname {
			n = p.rated(slots)
		} else {
			n = p.distinct(&p.parts[i], slots)
		}
		p.weights = append(p.weights, math.Log(float64(n+2)))
	}
}

// rated is how many of the nodes are not ignored.
func (p *policy) rated(slots []int32) (n int) {
	if !p.all {
		return len(slots)
	}
	for _, slot := range slots {
		if !p.ignored(slot) {
			n++
		}
	}
	return n
}

// distinct counts the parts among the nodes; to lack the key is a part too.
func (p *policy) distinct(part *spread.Part, slots []int32) (n int) {
	p.seen = spread.Zeros(p.seen, part.Topology.Len()+1)
	domains, seen := part.Topology.Domain, p.seen
	most := 0
	for _, rows := range part.Topology.Rows {
		if rows > 0 {
			most++
		}
	}
	if part.Topology.With < p.Live {
		most++
	}
	for _, slot := range slots {
		d := domains[slot] + 1
		if seen[d] || p.ignored(slot) {
			continue
		}
		seen[d] = true
		if n++; n == most {
			break
		}
	}
	return n
}
