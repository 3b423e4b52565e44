// Package checknodecondition is the predicate CheckNodeCondition: the node is
// Ready, its network is not unavailable, its disk not out of space, and it is
// not cordoned. A node without a condition of these passes on it.
//
// Source: the classic scheduler (Kubernetes 1.14, predicates.go). The modern
// one never reads conditions: it leaves them to taints.
package checknodecondition

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "CheckNodeCondition", Kind: guest.KindPredicate,
		Description: "The node is ready, has network and disk, and is not cordoned.",
		Reads:       sdk.NodeConditions | sdk.NodeTaints,
		Open:        open,
	})
}

type policy struct {
	rows                              *row.Table
	ready, network, disk              facts.Symbol
	notReady, noNetwork, full, cordon guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	text, id := s.Rows.Symbols.Intern, func(t string) guest.ReasonID { return s.Reasons.ID(sdk.RejectFinal(t)) }
	return &policy{
		rows: s.Rows, ready: text("Ready"), network: text("NetworkUnavailable"), disk: text("OutOfDisk"),
		notReady: id("node(s) were not ready"), noNetwork: id("node(s) had unavailable network"),
		full: id("node(s) were out of disk space"), cordon: id("node(s) were unschedulable"),
	}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(*sdk.Pod) guest.Answer { return guest.AskRows }

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = p.judge(slot)
	}
}

func (p *policy) judge(slot int32) guest.ReasonID {
	for _, c := range p.rows.Conditions[slot] {
		switch {
		case c.Type == p.ready && c.Status != facts.True:
			return p.notReady
		case c.Type == p.disk && c.Status != facts.False:
			return p.full
		case c.Type == p.network && c.Status != facts.False:
			return p.noNetwork
		}
	}
	if p.rows.Unschedulable[slot] {
		return p.cordon
	}
	return 0
}
