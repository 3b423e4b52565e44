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
	"math"

	"github.com/berth-dev/berth/policies-wasm/priorities/allocation"
	"github.com/berth-dev/berth/sdk"
)

const schema = `{"type":"object","additionalProperties":false,"properties":{` + allocation.Schema +
	`,"shape":{"type":"array","minItems":1,"maxItems":100,"items":{"type":"object","additionalProperties":false,` +
	`"required":["utilization","score"],"properties":{"utilization":{"type":"integer","minimum":0,"maximum":100},` +
	`"score":{"type":"integer","minimum":0,"maximum":10}}}}}}`

func init() {
	sdk.Register(sdk.Policy{
		Name: "RequestedToCapacityRatio", Kind: sdk.KindPriority, ConfigSchema: schema,
		Description: "A score by the node's utilisation, along a line that the settings give.",
		Reads:       sdk.PodRequests | sdk.NodeCapacity | sdk.NodeUsage,
		Open:        open,
	})
}

type point struct{ utilization, score int64 }

func open(s *sdk.Setup) (any, error) {
	if err := s.Config.OnlyKeys("resources", "shape"); err != nil {
		return nil, err
	}
	line, err := shape(s.Config)
	if err != nil {
		return nil, err
	}
	score := func(requested, allocatable int64) int64 {
		if requested > allocatable {
			return at(line, 100)
		}
		return at(line, allocation.Percent(requested, allocatable))
	}
	return allocation.New(s, score, mean, true)
}

func mean(sum, weights int64) int64 { return int64(math.Round(float64(sum) / float64(weights))) }

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
