package authz

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Placement knows which pods are bound to a node.
type Placement interface {
	PodsOn(ctx context.Context, node string) ([]*corev1.Pod, error)
}

// Authorizer asks system:masters, the node rules and RBAC.
type Authorizer struct {
	nodes *nodeRules
	// RBAC alone; who resolves rules for a review or checks an escalation
	// needs it.
	RBAC *RBAC
}

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// New authorizes by what objects and placement hold at the time of the question.
func New(objects view.Objects, placement Placement) *Authorizer {
	return &Authorizer{nodes: newNodeRules(objects, placement), RBAC: NewRBAC(objects)}
}

// Authorize implements authorizer.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, ask authorizer.Attributes) (authorizer.Decision, string, error) {
	who := ask.GetUser()
	if who == nil {
		return authorizer.DecisionNoOpinion, "nobody asks", nil
	}
	if slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	var whyNot string
	if node, ok := NodeOf(who); ok {
		allowed, reason, err := a.nodes.allow(ctx, node, ask)
		if err != nil || allowed {
			return decisionOf(allowed), reason, err
		}
		whyNot = reason
	}
	decision, reason, err := a.RBAC.Authorize(ctx, ask)
	if reason == "" {
		reason = whyNot
	}
	return decision, reason, err
}

func decisionOf(allowed bool) authorizer.Decision {
	if allowed {
		return authorizer.DecisionAllow
	}
	return authorizer.DecisionNoOpinion
}

// RulesFor implements authorizer.RuleResolver, for SelfSubjectRulesReview.
func (a *Authorizer) RulesFor(ctx context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	resources, paths, err := a.RBAC.ruleInfos(ctx, who, namespace)
	_, isNode := NodeOf(who)
	return resources, paths, isNode, err
}
