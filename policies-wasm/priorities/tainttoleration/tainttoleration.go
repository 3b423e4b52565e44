// Package tainttoleration is the priority TaintTolerationPriority: the fewer
// taints of effect PreferNoSchedule the pod does not tolerate, the higher.
//
// The raw score is their number; the host makes 100 − 100 · n / max of it.
//
// Source: kube-scheduler 1.36, plugin TaintToleration (Score).
package tainttoleration

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "TaintTolerationPriority", Kind: guest.KindPriority, Normalize: sdk.NormalizeMaxReversed,
		Description: "The fewer taints of effect PreferNoSchedule the pod does not tolerate, the higher.",
		Reads:       sdk.PodTolerations | sdk.NodeTaints,
		Open: func(s *guest.Setup) (any, error) {
			return &policy{rows: s.Rows}, s.Config.OnlyKeys()
		},
	})
}

type policy struct {
	rows *row.Table
	pod  *sdk.Pod
	// scores by set of taints, less by one than known.
	scores []int64
}

func (p *policy) PreScore(pod *sdk.Pod) guest.Answer {
	p.pod = pod
	if n := p.rows.TaintSets(); n > len(p.scores) {
		p.scores = make([]int64, n+n/2)
	}
	clear(p.scores)
	return guest.AskRows
}

func (p *policy) ScoreRows(slots []int32, scores []int64) {
	for i, slot := range slots {
		set := p.rows.TaintSet[slot]
		if set == 0 {
			scores[i] = 0
			continue
		}
		if p.scores[set] == 0 {
			p.scores[set] = 1 + p.count(p.rows.TaintSetOf(set))
		}
		scores[i] = p.scores[set] - 1
	}
}

func (p *policy) count(taints []facts.Taint) (n int64) {
	for _, t := range taints {
		if t.Effect == facts.PreferNoSchedule && !p.pod.Tolerates(t) {
			n++
		}
	}
	return n
}
