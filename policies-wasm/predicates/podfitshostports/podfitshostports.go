// Package podfitshostports is the predicate PodFitsHostPorts, also known as
// PodFitsPorts: none of the host ports that the pod asks for is held on the
// node. Two ports clash if number and protocol are equal, and the addresses
// are equal or one of them is 0.0.0.0.
//
// Source: kube-scheduler 1.36, plugin NodePorts.
package podfitshostports

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	for _, name := range [...]string{"PodFitsHostPorts", "PodFitsPorts"} {
		guest.Register(guest.Policy{
			Name: name, Kind: guest.KindPredicate,
			Description: "The host ports that the pod asks for are free on the node.",
			Reads:       sdk.PodPorts | sdk.NodePorts,
			Open:        open,
		})
	}
}

type policy struct {
	rows   *row.Table
	want   []facts.HostPort
	all    facts.Symbol
	reason guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	return &policy{
		rows: s.Rows, all: s.Rows.Symbols.Intern("0.0.0.0"),
		reason: s.Reasons.ID(sdk.Reject("node(s) didn't have free ports for the requested pod ports")),
	}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	p.want = p.want[:0]
	for _, w := range pod.Ports {
		if w.Port > 0 {
			p.want = append(p.want, w)
		}
	}
	if len(p.want) == 0 {
		return guest.Skip
	}
	return guest.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = 0
		if p.clash(p.rows.Ports[slot]) {
			verdicts[i] = p.reason
		}
	}
}

func (p *policy) clash(held []facts.HostPort) bool {
	for i := range held {
		h := &held[i]
		for k := range p.want {
			w := &p.want[k]
			if h.Port == w.Port && h.Protocol == w.Protocol && (h.IP == w.IP || h.IP == p.all || w.IP == p.all) {
				return true
			}
		}
	}
	return false
}
