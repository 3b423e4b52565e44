// Package podtopologyspread is the predicate PodTopologySpread: for each of the
// pod's topology spread constraints with whenUnsatisfiable: DoNotSchedule,
//
//	pods in the node's part + 1 if the pod meets the selector − least ≤ maxSkew
//
// where least is the smallest number in any part, or 0 with fewer parts than
// minDomains. A node without the topology key is refused for good. Which pods
// and nodes count: package spread.
//
// Source: kube-scheduler 1.36, plugin PodTopologySpread (Filter).
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
		Name: "PodTopologySpread", Kind: guest.KindPredicate, Scope: guest.ScopeSet,
		Description: "The pod's hard topology spread constraints hold.",
		Reads: sdk.PodLabels | sdk.PodAffinity | sdk.PodTolerations |
			sdk.NodeLabels | sdk.NodeTaints | sdk.Pods,
		SkipDependsOn: sdk.PodAffinity, ReplicasEqual: true,
		Open: open,
	})
}

// bound is one constraint, ready for rows.
type bound struct {
	part *spread.Part
	// most is how many pods a part may hold already.
	most int64
}

type policy struct {
	*spread.Counter
	hard   []facts.SpreadConstraint
	bounds []bound

	refused, missing guest.ReasonID
	syms             *facts.Symbols
}

func open(s *guest.Setup) (any, error) {
	const text = "node(s) didn't match pod topology spread constraints"
	return &policy{
		Counter: spread.New(s.Rows), syms: s.Rows.Symbols,
		refused: s.Reasons.ID(sdk.Reject(text)),
		missing: s.Reasons.ID(sdk.RejectFinal(text + " (missing required label)")),
	}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	p.hard = p.hard[:0]
	for i := range pod.Spread {
		if !pod.Spread[i].Soft {
			p.hard = append(p.hard, pod.Spread[i])
		}
	}
	if len(p.hard) == 0 {
		return guest.Skip
	}
	p.bounds = p.bounds[:0]
	parts := p.Count(pod, p.hard, true, false)
	for i := range parts {
		most := int64(p.hard[i].MaxSkew) + least(&parts[i])
		if p.hard[i].Selector.Matches(p.syms, pod.Labels.Pairs) {
			most--
		}
		p.bounds = append(p.bounds, bound{&parts[i], most})
	}
	return guest.AskRows
}

// least is the smallest number of pods in a part that has nodes.
func least(p *spread.Part) int64 {
	least, domains := int64(math.MaxInt64), int32(0)
	for domain, nodes := range p.Nodes {
		if nodes > 0 {
			domains++
			least = min(least, p.Of(int32(domain)))
		}
	}
	if domains == 0 || domains < p.Constraint.MinDomains {
		return 0
	}
	return least
}

// FilterRows: the first constraint that fails gives the reason.
func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	clear(verdicts)
	for k := len(p.bounds) - 1; k >= 0; k-- {
		b := &p.bounds[k]
		domains := b.part.Topology.Domain
		for i, slot := range slots {
			switch d := domains[slot]; {
			case d < 0:
				verdicts[i] = p.missing
			case b.part.Of(d) > b.most:
				verdicts[i] = p.refused
			}
		}
	}
}
