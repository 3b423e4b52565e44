// Package hostname is the predicate HostName: a pod that names its node goes
// there and nowhere else.
//
// Source: kube-scheduler 1.36, plugin NodeName.
package hostname

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "HostName", Kind: guest.KindPredicate,
		Description: "The pod names no node, or this one.",
		Reads:       sdk.PodAffinity | sdk.NodeName,
		Open:        open,
	})
}

type policy struct {
	rows   *row.Table
	want   facts.Symbol
	reason guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	reason := s.Reasons.ID(sdk.RejectFinal("node(s) didn't match the requested node name"))
	return &policy{rows: s.Rows, reason: reason}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	if p.want = pod.NodeName; p.want == facts.EmptySymbol {
		return guest.Skip
	}
	return guest.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = p.reason
		if p.rows.Name[slot] == p.want {
			verdicts[i] = 0
		}
	}
}
