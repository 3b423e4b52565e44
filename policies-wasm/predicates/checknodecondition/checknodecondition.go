// Package checknodecondition is the predicate CheckNodeCondition: the node is
// Ready, its network is not unavailable, its disk not out of space, and it is
// not cordoned. A node without a condition of these passes on it.
//
// Source: the classic scheduler (Kubernetes 1.14, predicates.go). The modern
// one never reads conditions: it leaves them to taints.
package checknodecondition

import "github.com/berth-dev/berth/sdk"

func init() {
	sdk.Register(sdk.Policy{
		Name: "CheckNodeCondition", Kind: sdk.KindPredicate,
		Description: "The node is ready, has network and disk, and is not cordoned.",
		Reads:       sdk.NodeConditions | sdk.NodeTaints,
		Open:        open,
	})
}

type policy struct {
	rows                              *sdk.Rows
	ready, network, disk              sdk.Symbol
	notReady, noNetwork, full, cordon sdk.ReasonID
}

func open(s *sdk.Setup) (any, error) {
	text, id := s.Rows.Symbols.Intern, func(t string) sdk.ReasonID { return s.Reasons.ID(sdk.RejectFinal(t)) }
	return &policy{
		rows: s.Rows, ready: text("Ready"), network: text("NetworkUnavailable"), disk: text("OutOfDisk"),
		notReady: id("node(s) were not ready"), noNetwork: id("node(s) had unavailable network"),
		full: id("node(s) were out of disk space"), cordon: id("node(s) were unschedulable"),
	}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(*sdk.Pod) sdk.Answer { return sdk.AskRows }

func (p *policy) FilterRows(slots []int32, verdicts []sdk.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = p.judge(slot)
	}
}

func (p *policy) judge(slot int32) sdk.ReasonID {
	for _, c := range p.rows.Conditions[slot] {
		switch {
		case c.Type == p.ready && c.Status != sdk.True:
			return p.notReady
		case c.Type == p.disk && c.Status != sdk.False:
			return p.full
		case c.Type == p.network && c.Status != sdk.False:
			return p.noNetwork
		}
	}
	if p.rows.Unschedulable[slot] {
		return p.cordon
	}
	return 0
}
