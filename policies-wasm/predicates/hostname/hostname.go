// Package hostname is the predicate HostName: a pod that names its node goes
// there and nowhere else.
//
// Source: kube-scheduler 1.36, plugin NodeName.
package hostname

import "github.com/berth-dev/berth/sdk"

func init() {
	sdk.Register(sdk.Policy{
		Name: "HostName", Kind: sdk.KindPredicate,
		Description: "The pod names no node, or this one.",
		Reads:       sdk.PodAffinity,
		Open:        open,
	})
}

type policy struct {
	rows   *sdk.Rows
	want   sdk.Symbol
	reason sdk.ReasonID
}

func open(s *sdk.Setup) (any, error) {
	reason := s.Reasons.ID(sdk.RejectFinal("node(s) didn't match the requested node name"))
	return &policy{rows: s.Rows, reason: reason}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(pod *sdk.Pod) sdk.Answer {
	if p.want = pod.NodeName; p.want == sdk.EmptySymbol {
		return sdk.Skip
	}
	return sdk.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []sdk.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = p.reason
		if p.rows.Name[slot] == p.want {
			verdicts[i] = 0
		}
	}
}
