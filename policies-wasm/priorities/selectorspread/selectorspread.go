// Package selectorspread holds the priorities SelectorSpreadPriority and
// ServiceSpreadingPriority, which spread the pods that belong together. Those
// are the pods of the namespace, not terminating, that meet the selectors of all
// the services that select the pod and, for SelectorSpreadPriority, of its
// replication controller, replica set or stateful set. With n of them on a node
// and z in its zone,
//
//	node  = 100 · (max n − n) / max n      (100 if max n is 0)
//	zone  = 100 · (max z − z) / max z      (100 if max z is 0)
//	score = int(node / 3 + zone · 2 / 3)   (int(node) where no zones are known)
//
// over the feasible nodes. A node's zone is its region and zone label together,
// topology.kubernetes.io/* or else failure-domain.beta.kubernetes.io/*. A node
// without either has only the share of node. A pod that nothing selects is not
// scored.
//
// Source: the classic scheduler (1.14), scaled from 0…10 to 0…100. What became
// of them is PodTopologySpreadPriority with its default constraints.
package selectorspread

import (
	"github.com/berth-dev/berth/policies-wasm/spread"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	for _, one := range [...]struct {
		name, text  string
		controllers bool
	}{
		{"SelectorSpreadPriority", "The fewer pods of the same services and controller on the node and in its zone, the higher.", true},
		{"ServiceSpreadingPriority", "The fewer pods of the same services on the node and in its zone, the higher.", false},
	} {
		reads := sdk.PodLabels | sdk.NodeLabels | sdk.Pods | sdk.Services
		if one.controllers {
			reads |= sdk.Owners
		}
		guest.Register(guest.Policy{
			Name: one.name, Kind: guest.KindPriority, Scope: guest.ScopeSet, Normalize: sdk.NormalizeNone,
			Description: one.text, Reads: reads, SkipDependsOn: reads &^ (sdk.Pods | sdk.NodeLabels), ReplicasEqual: true,
			Open: func(s *guest.Setup) (any, error) {
				return newPolicy(s.Rows, one.controllers), s.Config.OnlyKeys()
			},
		})
	}
}

// zoned is what a node's zone is known by: region and zone.
type zoned struct{ region, zone facts.Symbol }

type policy struct {
	*spread.Counter
	*spread.Owners
	rows *row.Table
	keys [2][2]facts.Symbol // region and zone, the present label first

	constraint [1]facts.SpreadConstraint
	part       *spread.Part
	columns    [2][2][]facts.Symbol

	zones  map[zoned]int64
	counts []int64
}

func newPolicy(rows *row.Table, controllers bool) *policy {
	p := &policy{
		Counter: spread.New(rows), Owners: spread.NewOwners(rows.Symbols, controllers),
		rows: rows, zones: map[zoned]int64{},
	}
	for i, name := range [...]string{"region", "zone"} {
		p.keys[i] = [2]facts.Symbol{
			rows.Symbols.Intern("topology.kubernetes.io/" + name),
			rows.Symbols.Intern("failure-domain.beta.kubernetes.io/" + name),
		}
	}
	return p
}

func (p *policy) PreScore(pod *sdk.Pod) guest.Answer {
	selector := p.Selector(pod)
	if len(selector.Reqs) == 0 {
		return guest.Skip
	}
	p.constraint[0] = facts.SpreadConstraint{Selector: selector}
	p.part = &p.Count(pod, p.constraint[:], false, true)[0]
	for i := range p.keys {
		for k := range p.keys[i] {
			p.columns[i][k] = p.rows.LabelColumn(p.keys[i][k])
		}
	}
	return guest.AskRows
}

func (p *policy) zoneOf(slot int32) (z zoned, ok bool) {
	z = zoned{p.label(0, slot), p.label(1, slot)}
	return z, z != zoned{}
}

func (p *policy) label(i int, slot int32) facts.Symbol {
	if value := p.columns[i][0][slot]; value != facts.NoSymbol {
		return value
	}
	return p.columns[i][1][slot]
}

func (p *policy) ScoreRows(slots []int32, scores []int64) {
	clear(p.zones)
	p.counts = p.counts[:0]
	most, maxZone := int64(0), int64(0)
	for _, slot := range slots {
		n := p.part.OnNode(slot)
		p.counts = append(p.counts, n)
		most = max(most, n)
		if z, ok := p.zoneOf(slot); ok {
			p.zones[z] += n
		}
	}
	for _, n := range p.zones {
		maxZone = max(maxZone, n)
	}
	for i, slot := range slots {
		score := share(p.counts[i], most)
		if z, ok := p.zoneOf(slot); ok {
			score = score/3 + share(p.zones[z], maxZone)*2/3
		}
		scores[i] = int64(score)
	}
}

func share(n, most int64) float64 {
	if most == 0 {
		return 100
	}
	return 100 * float64(most-n) / float64(most)
}
