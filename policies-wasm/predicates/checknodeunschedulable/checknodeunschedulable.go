// Package checknodeunschedulable is the predicate CheckNodeUnschedulable: the
// node is not cordoned, or the pod tolerates the taint that stands for it,
// node.kubernetes.io/unschedulable:NoSchedule.
//
// Source: kube-scheduler 1.36, plugin NodeUnschedulable.
package checknodeunschedulable

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "CheckNodeUnschedulable", Kind: guest.KindPredicate,
		Description: "The node is not cordoned, or the pod tolerates that.",
		Reads:       sdk.PodTolerations | sdk.NodeTaints,
		Open:        open,
	})
}

type policy struct {
	rows   *row.Table
	taint  facts.Taint
	reason guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	return &policy{
		rows: s.Rows,
		taint: facts.Taint{
			Key: s.Rows.Symbols.Intern("node.kubernetes.io/unschedulable"), Value: facts.EmptySymbol, Effect: facts.NoSchedule,
		},
		reason: s.Reasons.ID(sdk.RejectFinal("node(s) were unschedulable")),
	}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	if pod.Tolerates(p.taint) {
		return guest.Skip
	}
	return guest.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = 0
		if p.rows.Unschedulable[slot] {
			verdicts[i] = p.reason
		}
	}
}
