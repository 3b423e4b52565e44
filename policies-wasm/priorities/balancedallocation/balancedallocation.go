// Package balancedallocation is the priority BalancedResourceAllocation: the
// more the pod evens out how far the node's resources are used, the higher.
//
// With b(x) = int((1 − σ) · 100), where σ is the standard deviation of the
// fractions requested / allocatable (each at most 1), the score is
// 50 + (50 + b(with the pod) − b(without it)) / 2, in integers. Requests count
// as they are, without defaults. A pod that requests none of the resources is
// not scored.
//
// Source: kube-scheduler 1.36, plugin NodeResourcesBalancedAllocation.
package balancedallocation

import (
	"math"

	"github.com/berth-dev/berth/policies-wasm/priorities/allocation"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "BalancedResourceAllocation", Kind: guest.KindPriority,
		Description:  "The more the pod evens out how far the node's resources are used, the higher.",
		Reads:        sdk.PodRequests | sdk.NodeCapacity | sdk.NodeUsage,
		ConfigSchema: `{"type":"object","additionalProperties":false,"properties":{` + allocation.Schema + `}}`,
		Open:         open,
	})
}

type policy struct {
	rows      *row.Table
	resources []resource
	active    []resource
	with      []float64
	without   []float64
}

// resource is one that counts. Scalars are looked up row by row, since most
// rows have none.
type resource struct {
	used, has *[]int64
	name      string
	scalar    facts.Symbol
	asked     int64
}

func open(s *guest.Setup) (any, error) {
	if err := s.Config.OnlyKeys("resources"); err != nil {
		return nil, err
	}
	list, err := allocation.Resources(s.Config)
	if err != nil {
		return nil, err
	}
	p := &policy{rows: s.Rows}
	used, has := &s.Rows.Requested, &s.Rows.Allocatable
	for _, r := range list {
		switch r.Name {
		case "cpu":
			p.resources = append(p.resources, resource{used: &used.MilliCPU, has: &has.MilliCPU, name: r.Name})
		case "memory":
			p.resources = append(p.resources, resource{used: &used.Memory, has: &has.Memory, name: r.Name})
		case "ephemeral-storage":
			p.resources = append(p.resources, resource{used: &used.EphemeralStorage, has: &has.EphemeralStorage, name: r.Name})
		default:
			p.resources = append(p.resources, resource{name: r.Name, scalar: s.Rows.Symbols.Intern(r.Name)})
		}
	}
	return p, nil
}

func (p *policy) PreScore(pod *sdk.Pod) guest.Answer {
	p.active = p.active[:0]
	asks := false
	for _, r := range p.resources {
		r.asked = pod.Request(r.name)
		asks = asks || r.asked != 0
		if r.scalar == facts.NoSymbol || r.asked != 0 {
			p.active = append(p.active, r)
		}
	}
	if !asks {
		return guest.Skip
	}
	return guest.AskRows
}

func (p *policy) ScoreRows(slots []int32, scores []int64) {
	if len(p.active) == 2 && p.active[0].used != nil && p.active[1].used != nil {
		p.scoreTwo(slots, scores)
		return
	}
	for i, slot := range slots {
		p.with, p.without = p.with[:0], p.without[:0]
		for k := range p.active {
			r := &p.active[k]
			used, has := p.amounts(r, slot)
			if has > 0 {
				p.with = append(p.with, fraction(used+r.asked, has))
				p.without = append(p.without, fraction(used, has))
			}
		}
		scores[i] = 50 + (50+balance(p.with)-balance(p.without))/2
	}
}

// scoreTwo is the loop for two resources that have columns: CPU and memory in
// nearly every profile. Of one resource or none the deviation is 0.
func (p *policy) scoreTwo(slots []int32, scores []int64) {
	a, b := p.active[0], p.active[1]
	usedA, hasA, usedB, hasB := *a.used, *a.has, *b.used, *b.has
	for i, slot := range slots {
		ha, hb := hasA[slot], hasB[slot]
		if ha <= 0 || hb <= 0 {
			scores[i] = 75
			continue
		}
		ua, ub := usedA[slot], usedB[slot]
		with := balanceTwo(fraction(ua+a.asked, ha), fraction(ub+b.asked, hb))
		scores[i] = 50 + (50+with-balanceTwo(fraction(ua, ha), fraction(ub, hb)))/2
	}
}

func balanceTwo(a, b float64) int64 { return int64((1 - math.Abs((a-b)/2)) * sdk.MaxNodeScore) }

func (p *policy) amounts(r *resource, slot int32) (used, has int64) {
	if r.used != nil {
		return (*r.used)[slot], (*r.has)[slot]
	}
	return facts.ScalarValue(p.rows.RequestedScalars[slot], r.scalar),
		facts.ScalarValue(p.rows.AllocatableScalars[slot], r.scalar)
}

func fraction(used, has int64) float64 {
	if used >= has {
		return 1
	}
	return float64(used) / float64(has)
}

func balance(fractions []float64) int64 {
	switch len(fractions) {
	case 0, 1:
		return sdk.MaxNodeScore
	case 2:
		return balanceTwo(fractions[0], fractions[1])
	}
	return int64((1 - deviation(fractions)) * sdk.MaxNodeScore)
}

func deviation(fractions []float64) float64 {
	var total, sum float64
	for _, f := range fractions {
		total += f
	}
	mean := total / float64(len(fractions))
	for _, f := range fractions {
		sum += (f - mean) * (f - mean)
	}
	return math.Sqrt(sum / float64(len(fractions)))
}
