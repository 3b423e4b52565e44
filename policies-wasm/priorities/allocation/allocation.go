// Package allocation is what the priorities of a node's allocation share: a
// score for each resource from what would be requested with the pod on the
// node and what the node has, and the weighted mean of these.
package allocation

import (
	"errors"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

// Schema is that of the setting resources.
const Schema = `"resources":{"type":"array","maxItems":64,"items":{"type":"object","additionalProperties":false,` +
	`"required":["name"],"properties":{"name":{"type":"string"},"weight":{"type":"integer","minimum":1,"maximum":100}}}}`

// Resource is one resource that counts, with its weight.
type Resource struct {
	Name   string
	Weight int64
	kind   kind
	symbol facts.Symbol
	asked  int64
}

type kind uint8

const (
	cpu kind = iota
	memory
	storage
	scalar
)

// Formula is what sets one such priority apart. It is a type, not a function,
// so that the compiler puts it into the loop over the rows.
type Formula interface {
	// Score turns what would be requested and what there is into 0…100.
	Score(requested, allocatable int64) int64
	// Counts says whether a resource of that score counts in the mean.
	Counts(score int64) bool
	// Mean is the mean of weighted scores that come to sum.
	Mean(sum, weights int64) int64
}

// Weighted is the mean of most priorities: over all resources that the node
// has, cut to an integer.
type Weighted struct{}

// Counts implements Formula.
func (Weighted) Counts(int64) bool { return true }

// Mean implements Formula.
func (Weighted) Mean(sum, weights int64) int64 { return sum / weights }

// Scorer scores rows by their allocation.
type Scorer[F Formula] struct {
	rows      *row.Table
	resources []Resource
	active    []Resource
	formula   F
}

// Register registers a priority that has nothing but its formula to itself.
func Register[F Formula](name, description string, formula F) {
	guest.Register(guest.Policy{
		Name: name, Kind: guest.KindPriority, Description: description,
		Reads:        sdk.PodRequests | sdk.NodeCapacity | sdk.NodeUsage,
		ConfigSchema: `{"type":"object","additionalProperties":false,"properties":{` + Schema + `}}`,
		Open: func(s *guest.Setup) (any, error) {
			if err := s.Config.OnlyKeys("resources"); err != nil {
				return nil, err
			}
			return New(s, formula)
		},
	})
}

// New makes a scorer over the resources of the settings.
func New[F Formula](s *guest.Setup, formula F) (*Scorer[F], error) {
	resources, err := Resources(s.Config)
	if err != nil {
		return nil, err
	}
	for i := range resources {
		resources[i].resolve(s.Rows.Symbols)
	}
	return &Scorer[F]{rows: s.Rows, resources: resources, formula: formula}, nil
}

// Resources reads the setting resources; CPU and memory by default.
func Resources(c sdk.Config) ([]Resource, error) {
	items, err := c.List("resources")
	if err != nil {
		return nil, err
	}
	if len(items) > 64 {
		return nil, errors.New("resources has more than 64 entries")
	}
	if len(items) == 0 {
		return []Resource{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}, nil
	}
	var out []Resource
	for _, i := range items {
		if err := i.OnlyKeys("name", "weight"); err != nil {
			return nil, errors.New("resources: " + err.Error())
		}
		r := Resource{Name: i.String("name", "")}
		if r.Name == "" {
			return nil, errors.New("resources: an entry has no name")
		}
		if r.Weight, err = i.Int("weight", 1, 100, 1); err != nil {
			return nil, errors.New("resources: " + err.Error())
		}
		out = append(out, r)
	}
	return out, nil
}

func (r *Resource) resolve(syms *facts.Symbols) {
	switch r.Name {
	case "cpu":
		r.kind = cpu
	case "memory":
		r.kind = memory
	case "ephemeral-storage":
		r.kind = storage
	default:
		r.kind, r.symbol = scalar, syms.Intern(r.Name)
	}
}

// PreScore keeps the resources that count for the pod: extended ones only if
// it asks for them.
func (s *Scorer[F]) PreScore(pod *sdk.Pod) guest.Answer {
	s.active = s.active[:0]
	for _, r := range s.resources {
		switch r.kind {
		case cpu:
			r.asked = pod.NonZero.MilliCPU
		case memory:
			r.asked = pod.NonZero.Memory
		case storage:
			r.asked = pod.Requests.EphemeralStorage
		case scalar:
			if r.asked = facts.ScalarValue(pod.Scalars, r.symbol); r.asked == 0 {
				continue
			}
		}
		s.active = append(s.active, r)
	}
	return guest.AskRows
}

// ScoreRows implements guest.BatchScorer.
func (s *Scorer[F]) ScoreRows(slots []int32, scores []int64) {
	if len(s.active) == 2 && s.active[0].kind == cpu && s.active[1].kind == memory {
		s.scoreTwo(slots, scores)
		return
	}
	for i, slot := range slots {
		var t total
		for k := range s.active {
			r := &s.active[k]
			requested, allocatable := s.amounts(r, slot)
			s.add(&t, requested, allocatable, r.Weight)
		}
		scores[i] = s.end(&t)
	}
}

// scoreTwo is the loop for the resources of nearly every profile, with the
// columns at hand.
func (s *Scorer[F]) scoreTwo(slots []int32, scores []int64) {
	c, m := s.active[0], s.active[1]
	usedCPU, hasCPU := s.rows.NonZero.MilliCPU, s.rows.Allocatable.MilliCPU
	usedMemory, hasMemory := s.rows.NonZero.Memory, s.rows.Allocatable.Memory
	for i, slot := range slots {
		var t total
		s.add(&t, usedCPU[slot]+c.asked, hasCPU[slot], c.Weight)
		s.add(&t, usedMemory[slot]+m.asked, hasMemory[slot], m.Weight)
		scores[i] = s.end(&t)
	}
}

// total is the sum of the weighted scores, and of the weights.
type total struct{ sum, weights int64 }

func (s *Scorer[F]) add(t *total, requested, allocatable, weight int64) {
	if allocatable <= 0 {
		return
	}
	score := s.formula.Score(requested, allocatable)
	if !s.formula.Counts(score) {
		return
	}
	t.sum += score * weight
	t.weights += weight
}

func (s *Scorer[F]) end(t *total) int64 {
	if t.weights == 0 {
		return 0
	}
	return s.formula.Mean(t.sum, t.weights)
}

func (s *Scorer[F]) amounts(r *Resource, slot int32) (requested, allocatable int64) {
	rows := s.rows
	switch r.kind {
	case cpu:
		return rows.NonZero.MilliCPU[slot] + r.asked, rows.Allocatable.MilliCPU[slot]
	case memory:
		return rows.NonZero.Memory[slot] + r.asked, rows.Allocatable.Memory[slot]
	case storage:
		return rows.Requested.EphemeralStorage[slot] + r.asked, rows.Allocatable.EphemeralStorage[slot]
	}
	return facts.ScalarValue(rows.RequestedScalars[slot], r.symbol) + r.asked,
		facts.ScalarValue(rows.AllocatableScalars[slot], r.symbol)
}

// Percent is part · 100 / whole without overflow; whole is positive.
func Percent(part, whole int64) int64 {
	if part < 1<<56 {
		return part * sdk.MaxNodeScore / whole
	}
	return part / (whole/sdk.MaxNodeScore + 1)
}
