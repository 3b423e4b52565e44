// Package requestedtocapacityratio is the priority RequestedToCapacityRatio:
// a score by the utilisation that a node would have, along a broken line of
// points that the settings give.
//
// The line's scores are 0…10, as in Kubernetes, and are taken ten times. The
// weighted mean is over the resources whose score is above zero, rounded.
// Without settings the line runs from (0, 10) to (100, 0): the emptier the
// better.
//
// Source: kube-scheduler 1.36, NodeResourcesFit with RequestedToCapacityRatio.
package requestedtocapacityratio

import (
	"errors"

	"github.com/berth-dev/berth/policies-wasm/priorities/allocation"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/guest"
)

const schema = `{"type":"object","additionalProperties":false,"properties":{` + allocation.Schema +
	`,"shape":{"type":"array","minItems":1,"maxItems":100,"items":{"type":"object","additionalProperties":false,` +
	`"required":["utilization","score"],"properties":{"utilization":{"type":"integer","minimum":0,"maximum":100},` +
	`"score":{"type":"integer","minimum":0,"maximum":10}}}}}}`

func init() {
	guest.Register(guest.Policy{
		Name: "RequestedToCapacityRatio", Kind: guest.KindPriority, ConfigSchema: schema,
		Description: "A score by the node's utilisation, along a line that the settings give.",
		Reads:       sdk.PodRequests | sdk.NodeCapacity | sdk.NodeUsage,
		Open:        open,
	})
}

type point struct{ utilization, score int64 }

func open(s *guest.Setup) (any, error) {
	if err := s.Config.OnlyKeys("resources", "shape"); err != nil {
		return nil, err
	}
	line, err := shape(s.Config)
	if err != nil {
		return nil, err
	}
	return allocation.New(s, heightsOf(line))
}

// heights are the line's at each utilisation.
type heights [101]int64

func heightsOf(line []point) *heights {
	var h heights
	for p := range h {
		h[p] = at(line, int64(p))
	}
	return &h
}

// Score implements allocation.Formula.
func (h *heights) Score(requested, allocatable int64) int64 {
	if requested > allocatable {
		return h[100]
	}
	return h[min(max(allocation.Percent(requested, allocatable), 0), 100)]
}

// Counts implements allocation.Formula.
func (*heights) Counts(score int64) bool { return score > 0 }

// Mean implements allocation.Formula: it rounds.
func (*heights) Mean(sum, weights int64) int64 { return (2*sum + weights) / (2 * weights) }

func shape(c sdk.Config) ([]point, error) {
	items, err := c.List("shape")
	if err != nil {
		return nil, err
	}
	if !c.Has("shape") {
		return []point{{0, 100}, {100, 0}}, nil
	}
	if len(items) == 0 || len(items) > 100 {
		return nil, errors.New("shape must have 1 to 100 points")
	}
	var line []point
	for _, i := range items {
		if err := i.OnlyKeys("utilization", "score"); err != nil {
			return nil, errors.New("shape: " + err.Error())
		}
		u, err := i.Int("utilization", 0, 100, 0)
		if err != nil {
			return nil, errors.New("shape: " + err.Error())
		}
		score, err := i.Int("score", 0, 10, 0)
		if err != nil {
			return nil, errors.New("shape: " + err.Error())
		}
		if n := len(line); n > 0 && line[n-1].utilization >= u {
			return nil, errors.New("shape: utilization must grow from point to point")
		}
		line = append(line, point{u, 10 * score})
	}
	return line, nil
}

// at is the line's height, in integers; flat before its first and after its
// last point.
func at(line []point, p int64) int64 {
	for i, to := range line {
		if p > to.utilization {
			continue
		}
		if i == 0 {
			return to.score
		}
		from := line[i-1]
		return from.score + (to.score-from.score)*(p-from.utilization)/(to.utilization-from.utilization)
	}
	return line[len(line)-1].score
}
