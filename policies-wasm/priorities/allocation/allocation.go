// Package allocation is what the priorities of a node's allocation share: a
// score for each resource from what would be requested with the pod on the
// node and what the node has, and the weighted mean of these.
package allocation

import (
	"errors"

	"github.com/berth-dev/berth/sdk"
)

// Schema is that of the setting resources.
const Schema = `"resources":{"type":"array","maxItems":64,"items":{"type":"object","additionalProperties":false,` +
	`"required":["name"],"properties":{"name":{"type":"string"},"weight":{"type":"integer","minimum":1,"maximum":100}}}}`

// Resource is one resource that counts, with its weight.
type Resource struct {
	Name   string
	Weight int64
	kind   kind
	symbol sdk.Symbol
	asked  int64
}

type kind uint8

const (
	cpu kind = iota
	memory
	storage
	scalar
)

// Score turns what would be requested and what there is into 0…100.
type Score func(requested, allocatable int64) int64

// Mean weighs the resources' scores; by default the weighted mean, cut to an
// integer, over the resources that the node has.
type Mean func(sum, weights int64) int64

// Scorer scores rows by their allocation.
type Scorer struct {
	rows      *sdk.Rows
	resources []Resource
	active    []Resource
	score     Score
	mean      Mean
	// skipZero leaves resources out whose score is not positive.
	skipZero bool
}

// Register registers a priority that has nothing but its score to itself.
func Register(name, description string, score Score) {
	sdk.Register(sdk.Policy{
		Name: name, Kind: sdk.KindPriority, Description: description,
		Reads:        sdk.PodRequests | sdk.NodeCapacity | sdk.NodeUsage,
		ConfigSchema: `{"type":"object","additionalProperties":false,"properties":{` + Schema + `}}`,
		Open: func(s *sdk.Setup) (any, error) {
			if err := s.Config.OnlyKeys("resources"); err != nil {
				return nil, err
			}
			return New(s, score, func(sum, weights int64) int64 { return sum / weights }, false)
		},
	})
}

// New makes a scorer over the resources of the settings.
func New(s *sdk.Setup, score Score, mean Mean, skipZero bool) (*Scorer, error) {
	resources, err := Resources(s.Config)
	if err != nil {
		return nil, err
	}
	for i := range resources {
		resources[i].resolve(s.Rows.Symbols)
	}
	return &Scorer{rows: s.Rows, resources: resources, score: score, mean: mean, skipZero: skipZero}, nil
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

func (r *Resource) resolve(syms *sdk.Symbols) {
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
func (s *Scorer) PreScore(pod *sdk.Pod) sdk.Answer {
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
			if r.asked = sdk.ScalarValue(pod.Scalars, r.symbol); r.asked == 0 {
				continue
			}
		}
		s.active = append(s.active, r)
	}
	return sdk.AskRows
}

// ScoreRows implements sdk.BatchScorer.
func (s *Scorer) ScoreRows(slots []int32, scores []int64) {
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
func (s *Scorer) scoreTwo(slots []int32, scores []int64) {
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

func (s *Scorer) add(t *total, requested, allocatable, weight int64) {
	if allocatable <= 0 {
		return
	}
	score := s.score(requested, allocatable)
	if s.skipZero && score <= 0 {
		return
	}
	t.sum += score * weight
	t.weights += weight
}

func (s *Scorer) end(t *total) int64 {
	if t.weights == 0 {
		return 0
	}
	return s.mean(t.sum, t.weights)
}

func (s *Scorer) amounts(r *Resource, slot int32) (requested, allocatable int64) {
	rows := s.rows
	switch r.kind {
	case cpu:
		return rows.NonZero.MilliCPU[slot] + r.asked, rows.Allocatable.MilliCPU[slot]
	case memory:
		return rows.NonZero.Memory[slot] + r.asked, rows.Allocatable.Memory[slot]
	case storage:
		return rows.Requested.EphemeralStorage[slot] + r.asked, rows.Allocatable.EphemeralStorage[slot]
	}
	return sdk.ScalarValue(rows.RequestedScalars[slot], r.symbol) + r.asked,
		sdk.ScalarValue(rows.AllocatableScalars[slot], r.symbol)
}

// Percent is part · 100 / whole without overflow; whole is positive.
func Percent(part, whole int64) int64 {
	if part < 1<<56 {
		return part * sdk.MaxNodeScore / whole
	}
	return part / (whole/sdk.MaxNodeScore + 1)
}
