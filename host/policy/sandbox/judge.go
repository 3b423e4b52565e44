package sandbox

import (
	"context"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/score"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Question is a pod at a moment, which is asked about beside the cycles.
type Question struct {
	Log snapshot.Log
	Pod *snapshot.Pod
	Now int64
}

// Judge asks a predicate about rows, whatever it answered in the cycle.
func (s *Sandbox) Judge(ctx context.Context, q Question, rows []int32) ([]framework.ReasonID, error) {
	verdicts := make([]framework.ReasonID, len(rows))
	answer, err := s.Pod(ctx, q.Log, q.Pod, q.Now)
	if err != nil || answer.Ask == abi.AskSkip || len(rows) == 0 {
		return verdicts, err
	}
	if answer.Ask == abi.AskRefuse {
		for i := range verdicts {
			verdicts[i] = answer.Reason
		}
		return verdicts, nil
	}
	return verdicts, s.Filter(ctx, rows, verdicts)
}

// Scores asks a priority about rows and normalises what it says.
func (s *Sandbox) Scores(ctx context.Context, q Question, rows []int32) ([]int64, error) {
	raw := make([]int64, len(rows))
	answer, err := s.Pod(ctx, q.Log, q.Pod, q.Now)
	if err != nil || answer.Ask != abi.AskRows || len(rows) == 0 {
		return raw, err
	}
	if err := s.Score(ctx, rows, raw); err != nil {
		return nil, err
	}
	for i := range raw {
		raw[i] = score.Clamp(raw[i])
	}
	extremes := score.Of(raw)
	for i := range raw {
		raw[i] = score.Normalize(s.info.Normalize, raw[i], extremes)
	}
	return raw, nil
}

// Why is the text of a reason that it gave.
func (s *Sandbox) Why(reason framework.ReasonID) string { return s.reasons.Get(reason).Text }
