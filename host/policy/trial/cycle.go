package trial

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/score"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// maxCompared is about how many nodes two versions are compared on for a
// pod: of a larger cluster it is every second one, every third, ….
const maxCompared = 2000

// Cycle is what a comparison is about, before its pod is placed.
type Cycle struct {
	Log  snapshot.Log
	Pod  *snapshot.Pod
	Now  int64
	Seen framework.Outcome
}

func (s *Cycle) podName() string { return s.Pod.Object.Namespace + "/" + s.Pod.Object.Name }

func (s *Cycle) nodeName(row int32) string { return s.Log.Row(row).Node.Name }

// rows are the nodes to compare on: for each replica others, lest a canary
// refuses unseen what no pod of a template is ever compared on.
func (s *Cycle) rows() []int32 {
	step := s.Log.Slots()/maxCompared + 1
	var rows []int32
	for row := int32(spread(s.Pod) % uint32(step)); row < s.Log.Slots(); row += step {
		if s.Log.Row(row) != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// feasible are the rows that the profile admitted.
func (s *Cycle) feasible() []int32 {
	return slices.DeleteFunc(slices.Clone(s.Seen.Rows), s.Seen.Refused)
}

// judge asks a predicate about rows, whatever it answered in the cycle.
func (s *Cycle) judge(ctx context.Context, box *sandbox.Sandbox, rows []int32) ([]framework.ReasonID, error) {
	verdicts := make([]framework.ReasonID, len(rows))
	answer, err := box.Pod(ctx, s.Log, s.Pod, s.Now)
	if err != nil || answer.Ask == abi.AskSkip || len(rows) == 0 {
		return verdicts, err
	}
	if answer.Ask == abi.AskRefuse {
		for i := range verdicts {
			verdicts[i] = answer.Reason
		}
		return verdicts, nil
	}
	return verdicts, box.Filter(ctx, rows, verdicts)
}

// scores asks a priority about rows and normalises what it says.
func (s *Cycle) scores(ctx context.Context, box *sandbox.Sandbox, rows []int32) ([]int64, error) {
	raw := make([]int64, len(rows))
	answer, err := box.Pod(ctx, s.Log, s.Pod, s.Now)
	if err != nil || answer.Ask != abi.AskRows || len(rows) == 0 {
		return raw, err
	}
	if err := box.Score(ctx, rows, raw); err != nil {
		return nil, err
	}
	for i := range raw {
		raw[i] = score.Clamp(raw[i])
	}
	extremes := score.Of(raw)
	for i := range raw {
		raw[i] = score.Normalize(box.Info().Normalize, raw[i], extremes)
	}
	return raw, nil
}
