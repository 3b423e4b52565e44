// Package nodeaffinity is the priority NodeAffinityPriority: the sum of the
// weights of the pod's preferred node affinity terms that the node matches.
//
// The host makes 100 · sum / max of it. A pod without preferred terms is not
// scored. A term without requirements matches nothing, and weights of 0 count
// for nothing.
//
// Source: kube-scheduler 1.36, plugin NodeAffinity (Score).
package nodeaffinity

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "NodeAffinityPriority", Kind: guest.KindPriority, Normalize: sdk.NormalizeMax,
		Description: "The more of the pod's preferred node affinity matches, by weight, the higher.",
		Reads:       sdk.PodAffinity | sdk.NodeLabels | sdk.NodeName,
		Open: func(s *guest.Setup) (any, error) {
			return &policy{matcher: row.NewNodeMatcher(s.Rows)}, s.Config.OnlyKeys()
		},
	})
}

type policy struct{ matcher *row.NodeMatcher }

func (p *policy) PreScore(pod *sdk.Pod) guest.Answer {
	if len(pod.Preferred) == 0 {
		return guest.Skip
	}
	p.matcher.Prefer(pod.Preferred)
	return guest.AskRows
}

func (p *policy) ScoreRows(slots []int32, scores []int64) {
	for i, slot := range slots {
		scores[i] = p.matcher.Weight(slot)
	}
}

// Depends implements guest.Depender: on the labels and names that the pod names.
func (p *policy) Depends(d *row.Depends) { p.matcher.Depends(d) }
