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
)

const schema = `{"type":"object","additionalProperties":false,"properties":{"addedAffinity":{"type":"array",` +
	`"description":"node selector terms, of which one must match for every pod"}}}`

func init() {
	sdk.Register(sdk.Policy{
		Name: "MatchNodeSelector", Kind: sdk.KindPredicate, ConfigSchema: schema,
		Description: "The node has the labels that the pod selects, and matches its required node affinity.",
		Reads:       sdk.PodAffinity | sdk.NodeLabels,
		Open:        open,
	})
}

type policy struct {
	matcher, added *sdk.NodeMatcher
	addedTerms     []sdk.NodeTerm
	pod            bool
	reason, other  sdk.ReasonID
}

func open(s *sdk.Setup) (any, error) {
	if err := s.Config.OnlyKeys("addedAffinity"); err != nil {
		return nil, err
	}
	terms, err := sdk.NodeTerms(s.Config, "addedAffinity", s.Rows.Symbols)
	if err != nil {
		return nil, errors.New("addedAffinity: " + err.Error())
	}
	return &policy{
		matcher: sdk.NewNodeMatcher(s.Rows), added: sdk.NewNodeMatcher(s.Rows), addedTerms: terms,
		reason: s.Reasons.ID(sdk.RejectFinal("node(s) didn't match Pod's node affinity/selector")),
		other:  s.Reasons.ID(sdk.RejectFinal("node(s) didn't match scheduler-enforced node affinity")),
	}, nil
}

func (p *policy) PreFilter(pod *sdk.Pod) sdk.Answer {
	p.pod = !p.matcher.Require(pod)
	if len(p.addedTerms) > 0 {
		p.added.RequireTerms(nil, true, p.addedTerms)
		return sdk.AskRows
	}
	if !p.pod {
		return sdk.Skip
	}
	return sdk.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []sdk.ReasonID) {
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
