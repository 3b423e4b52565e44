// Package matchnodeselector is the predicate MatchNodeSelector: the node has
// every label of the pod's nodeSelector, and at least one term of its required
// node affinity matches, with In, NotIn, Exists, DoesNotExist, Gt and Lt on
// labels and In and NotIn on metadata.name. A term without requirements
// matches nothing.
//
// Source: kube-scheduler 1.36, plugin NodeAffinity (Filter). The setting
// addedAffinity has its meaning: terms of which one must match as well.
package matchnodeselector

import (
	"errors"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

const schema = `{"type":"object","additionalProperties":false,"properties":{"addedAffinity":{"type":"array",` +
	`"description":"node selector terms, of which one must match for every pod"}}}`

func init() {
	guest.Register(guest.Policy{
		Name: "MatchNodeSelector", Kind: guest.KindPredicate, ConfigSchema: schema,
		Description: "The node has the labels that the pod selects, and matches its required node affinity.",
		Reads:       sdk.PodAffinity | sdk.NodeLabels | sdk.NodeName,
		Open:        open,
	})
}

type policy struct {
	matcher, added *row.NodeMatcher
	addedTerms     []facts.NodeTerm
	pod            bool
	reason, other  guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	if err := s.Config.OnlyKeys("addedAffinity"); err != nil {
		return nil, err
	}
	terms, err := facts.NodeTerms(s.Config, "addedAffinity", s.Rows.Symbols)
	if err != nil {
		return nil, errors.New("addedAffinity: " + err.Error())
	}
	return &policy{
		matcher: row.NewNodeMatcher(s.Rows), added: row.NewNodeMatcher(s.Rows), addedTerms: terms,
		reason: s.Reasons.ID(sdk.RejectFinal("node(s) didn't match Pod's node affinity/selector")),
		other:  s.Reasons.ID(sdk.RejectFinal("node(s) didn't match scheduler-enforced node affinity")),
	}, nil
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	p.pod = !p.matcher.Require(pod)
	if len(p.addedTerms) > 0 {
		p.added.RequireTerms(nil, true, p.addedTerms)
		return guest.AskRows
	}
	if !p.pod {
		return guest.Skip
	}
	return guest.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	if p.pod {
		p.matcher.MatchRows(slots, verdicts, p.reason)
	} else {
		clear(verdicts)
	}
	if len(p.addedTerms) == 0 {
		return
	}
	for i, slot := range slots {
		if !p.added.Matches(slot) {
			verdicts[i] = p.other
		}
	}
}

// Depends implements guest.Depender: on the labels and names that the pod and the
// settings name.
func (p *policy) Depends(d *row.Depends) {
	if p.pod {
		p.matcher.Depends(d)
	}
	if len(p.addedTerms) > 0 {
		p.added.Depends(d)
	}
}
