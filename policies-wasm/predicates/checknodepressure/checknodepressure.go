// Package checknodepressure holds the predicates CheckNodeMemoryPressure,
// CheckNodeDiskPressure and CheckNodePIDPressure: the node does not report
// that pressure. Memory pressure keeps only pods off that request and limit
// neither CPU nor memory (quality of service BestEffort).
//
// Source: the classic scheduler (Kubernetes 1.14, predicates.go). The modern
// one never reads conditions: it leaves them to taints.
package checknodepressure

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	register("CheckNodeMemoryPressure", "MemoryPressure", "node(s) had memory pressure", true)
	register("CheckNodeDiskPressure", "DiskPressure", "node(s) had disk pressure", false)
	register("CheckNodePIDPressure", "PIDPressure", "node(s) had pid pressure", false)
}

func register(name, condition, reason string, bestEffortOnly bool) {
	reads := sdk.NodeConditions
	description := "The node does not report " + condition + "."
	if bestEffortOnly {
		reads |= sdk.PodRequests
		description = "The node does not report " + condition + ", or the pod is not BestEffort."
	}
	guest.Register(guest.Policy{
		Name: name, Kind: guest.KindPredicate, Description: description, Reads: reads,
		Open: func(s *guest.Setup) (any, error) {
			return &policy{
				rows: s.Rows, condition: s.Rows.Symbols.Intern(condition), bestEffortOnly: bestEffortOnly,
				reason: s.Reasons.ID(sdk.RejectFinal(reason)),
			}, s.Config.OnlyKeys()
		},
	})
}

type policy struct {
	rows           *row.Table
	condition      facts.Symbol
	bestEffortOnly bool
	reason         guest.ReasonID
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	if p.bestEffortOnly && !pod.BestEffort {
		return guest.Skip
	}
	return guest.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = 0
		if facts.ConditionOf(p.rows.Conditions[slot], p.condition) == facts.True {
			verdicts[i] = p.reason
		}
	}
}
