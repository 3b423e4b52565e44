package authz

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth/host/auth/view"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// RBAC answers by Roles and bindings. It is Kubernetes' rule for rule; only the
// way to the rules of a subject is an index instead of a walk over all bindings.
type RBAC struct {
	objects view.Objects

	compiled atomic.Pointer[grants]
	mu       sync.Mutex // held by who compiles
}

// RBAC resolves rules for Kubernetes' own escalation check.
var _ validation.AuthorizationRuleResolver = (*RBAC)(nil)

// NewRBAC answers by what objects hold at the time of the question.
func NewRBAC(objects view.Objects) *RBAC { return &RBAC{objects: objects} }

// Authorize implements authorizer.Authorizer.
func (r *RBAC) Authorize(ctx context.Context, ask authorizer.Attributes) (authorizer.Decision, string, error) {
	var broken []error
	decision, reason := authorizer.DecisionNoOpinion, ""
	r.VisitRulesFor(ctx, ask.GetUser(), ask.GetNamespace(), func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool {
		if err != nil {
			broken = append(broken, err)
			return true
		}
		if !rbac.RuleAllows(ask, rule) {
			return true
		}
		decision, reason = authorizer.DecisionAllow, "RBAC: allowed by "+source.String()
		return false
	})
	if decision != authorizer.DecisionAllow && len(broken) > 0 {
		reason = fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(broken))
	}
	return decision, reason, nil
}

// VisitRulesFor implements validation.AuthorizationRuleResolver.
func (r *RBAC) VisitRulesFor(ctx context.Context, who user.Info, namespace string, visit func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool) {
	index, err := r.index(ctx)
	if err != nil {
		visit(nil, nil, err)
		return
	}
	if !index.cluster.visit(who, visit) {
		return
	}
	if namespace != "" {
		index.namespaces[namespace].visit(who, visit)
	}
}

// RulesFor implements validation.AuthorizationRuleResolver.
func (r *RBAC) RulesFor(ctx context.Context, who user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var broken []error
	r.VisitRulesFor(ctx, who, namespace, func(_ fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool {
		if err != nil {
			broken = append(broken, err)
			return true
		}
		rules = append(rules, *rule)
		return true
	})
	return rules, utilerrors.NewAggregate(broken)
}

// GetRoleReferenceRules implements validation.AuthorizationRuleResolver.
func (r *RBAC) GetRoleReferenceRules(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		role, err := view.Get[*rbacv1.Role](ctx, r.objects, view.Roles, namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	case "ClusterRole":
		role, err := view.Get[*rbacv1.ClusterRole](ctx, r.objects, view.ClusterRoles, "", ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}

func (r *RBAC) ruleInfos(ctx context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, error) {
	rules, err := r.RulesFor(ctx, who, namespace)
	var resources []authorizer.ResourceRuleInfo
	var paths []authorizer.NonResourceRuleInfo
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
		}
	}
	return resources, paths, err
}

// index gives the compiled grants, after compiling them anew if an object of
// theirs has changed.
func (r *RBAC) index(ctx context.Context) (*grants, error) {
	if index := r.compiled.Load(); index != nil && index.versions == versionsOf(r.objects) {
		return index, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Before the lists are read: what changes meanwhile is compiled next time.
	versions := versionsOf(r.objects)
	if index := r.compiled.Load(); index != nil && index.versions == versions {
		return index, nil
	}
	index, err := compile(ctx, r, versions)
	if err != nil {
		return nil, fmt.Errorf("read roles and bindings: %w", err)
	}
	r.compiled.Store(index)
	return index, nil
}
