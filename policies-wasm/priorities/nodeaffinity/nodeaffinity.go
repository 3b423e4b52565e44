// Package nodeaffinity is the priority NodeAffinityPriority: the sum of the
// weights of the pod's preferred node affinity terms that the node matches.
//
// The host makes 100 · sum / max of it. A pod without preferred terms is not
// scored. A term without requirements matches nothing, and weights of 0 count
// for nothing.
//
// Source: kube-scheduler 1.36, plugin NodeAffinity (Score).
package nodeaffinity

import "github.com/berth-dev/berth/sdk"

func init() {
	sdk.Register(sdk.Policy{
		Name: "NodeAffinityPriority", Kind: sdk.KindPriority, Normalize: sdk.NormalizeMax,
		Description: "The more of the pod's preferred node affinity matches, by weight, the higher.",
		Reads:       sdk.PodAffinity | sdk.NodeLabels,
		Open: func(s *sdk.Setup) (any, error) {
			return &policy{matcher: sdk.NewNodeMatcher(s.Rows)}, s.Config.OnlyKeys()
		},
	})
}

type policy struct{ matcher *sdk.NodeMatcher }

func (p *policy) PreScore(pod *sdk.Pod) sdk.Answer {
	if len(pod.Preferred) == 0 {
		return sdk.Skip
	}
	p.matcher.Prefer(pod.Preferred)
	return sdk.AskRows
}

func (p *policy) ScoreRows(slots []int32, scores []int64) {
	for i, slot := range slots {
		scores[i] = p.matcher.Weight(slot)
	}
}
