// Package checknodepressure holds the predicates CheckNodeMemoryPressure,
// CheckNodeDiskPressure and CheckNodePIDPressure: the node does not report
// that pressure. Memory pressure keeps only pods off that request and limit
// neither CPU nor memory (quality of service BestEffort).
//
// Source: the classic scheduler (Kubernetes 1.14, predicates.go). The modern
// one never reads conditions: it leaves them to taints.
package checknodepressure

import "github.com/berth-dev/berth/sdk"

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
	sdk.Register(sdk.Policy{
		Name: name, Kind: sdk.KindPredicate, Description: description, Reads: reads,
		Open: func(s *sdk.Setup) (any, error) {
			return &policy{
				rows: s.Rows, condition: s.Rows.Symbols.Intern(condition), bestEffortOnly: bestEffortOnly,
				reason: s.Reasons.ID(sdk.RejectFinal(reason)),
			}, s.Config.OnlyKeys()
		},
	})
}

type policy struct {
	rows           *sdk.Rows
	condition      sdk.Symbol
	bestEffortOnly bool
	reason         sdk.ReasonID
}

func (p *policy) PreFilter(pod *sdk.Pod) sdk.Answer {
	if p.bestEffortOnly && !pod.BestEffort {
		return sdk.Skip
	}
	return sdk.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []sdk.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = 0
		if sdk.ConditionOf(p.rows.Conditions[slot], p.condition) == sdk.True {
			verdicts[i] = p.reason
		}
	}
}
