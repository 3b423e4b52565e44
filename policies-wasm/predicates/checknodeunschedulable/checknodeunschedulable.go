// Package checknodeunschedulable is the predicate CheckNodeUnschedulable: the
// node is not cordoned, or the pod tolerates the taint that stands for it,
// node.kubernetes.io/unschedulable:NoSchedule.
//
// Source: kube-scheduler 1.36, plugin NodeUnschedulable.
package checknodeunschedulable

import "github.com/berth-dev/berth/sdk"

func init() {
	sdk.Register(sdk.Policy{
		Name: "CheckNodeUnschedulable", Kind: sdk.KindPredicate,
		Description: "The node is not cordoned, or the pod tolerates that.",
		Reads:       sdk.PodTolerations | sdk.NodeTaints,
		Open:        open,
	})
}

type policy struct {
	rows   *sdk.Rows
	taint  sdk.Taint
	reason sdk.ReasonID
}

func open(s *sdk.Setup) (any, error) {
	return &policy{
		rows: s.Rows,
		taint: sdk.Taint{
			Key: s.Rows.Symbols.Intern("node.kubernetes.io/unschedulable"), Value: sdk.EmptySymbol, Effect: sdk.NoSchedule,
		},
		reason: s.Reasons.ID(sdk.RejectFinal("node(s) were unschedulable")),
	}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(pod *sdk.Pod) sdk.Answer {
	if pod.Tolerates(p.taint) {
		return sdk.Skip
	}
	return sdk.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []sdk.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = 0
		if p.rows.Unschedulable[slot] {
			verdicts[i] = p.reason
		}
	}
}
