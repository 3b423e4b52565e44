package admission

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/authz"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/policy/v1alpha1"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	rbacregistry "k8s.io/kubernetes/pkg/registry/rbac"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
)

// escalation lets nobody grant rights that they don't have: neither by a role,
// unless they may "escalate" it, nor by a binding, unless they may "bind" it.
type escalation struct{ access *authz.Authorizer }

// everything is what a role needs to gather from others.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// free tells that the write grants nothing, or by somebody who may everything.
func free(a *registry.Attributes) bool {
	if !whole(a, registry.Create, registry.Update) || a.Object == nil {
		return true
	}
	if a.User == nil || slices.Contains(a.User.GetGroups(), user.SystemPrivilegedGroup) {
		return true
	}
	return a.Old != nil && rbacregistry.IsOnlyMutatingGCFields(a.Object, a.Old, helper.Semantic)
}

func (e escalation) may(ctx context.Context, a *registry.Attributes, verb, resource, name string) bool {
	decision, _, err := e.access.Authorize(ctx, authorizer.AttributesRecord{
		User: a.User, Verb: verb, APIGroup: rbacv1.GroupName, APIVersion: "*", Resource: resource,
		Name: name, Namespace: a.Namespace, ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}

// policy lets nobody have a guest act with rights that they could not use
// themselves: a controller's code runs as the ServiceAccount that its Policy names,
// so whoever says which code that is must be allowed to impersonate it.
func (e escalation) policy(ctx context.Context, a *registry.Attributes) error {
	p, ok := a.Object.(*v1alpha1.Policy)
	if !ok || free(a) || p.Spec.ServiceAccount == nil {
		return nil
	}
	if old, ok := a.Old.(*v1alpha1.Policy); ok && equality.Semantic.DeepEqual(old.Spec, p.Spec) {
		return nil
	}
	account := p.Spec.ServiceAccount
	decision, _, err := e.access.Authorize(ctx, authorizer.AttributesRecord{
		User: a.User, Verb: "impersonate", APIVersion: "v1", Resource: "serviceaccounts",
		Namespace: account.Namespace, Name: account.Name, ResourceRequest: true,
	})
	if err != nil || decision != authorizer.DecisionAllow {
		return forbid(a, "its controller would act as the ServiceAccount %s/%s, which %s may not impersonate", account.Namespace, account.Name, a.User.GetName())
	}
	return nil
}

// covered tells whether the user has all the rules where the object lies.
func (e escalation) covered(ctx context.Context, a *registry.Attributes, rules []rbacv1.PolicyRule) error {
	ctx = apirequest.WithNamespace(apirequest.WithUser(ctx, a.User), a.Namespace)
	return validation.ConfirmNoEscalation(ctx, e.access.RBAC, rules)
}

func (e escalation) role(ctx context.Context, a *registry.Attributes) error {
	role, ok := a.Object.(*rbacv1.Role)
	if !ok || free(a) || e.may(ctx, a, "escalate", "roles", a.Name) {
		return nil
	}
	return e.refuseUncovered(ctx, a, role.Rules)
}

func (e escalation) refuseUncovered(ctx context.Context, a *registry.Attributes, rules []rbacv1.PolicyRule) error {
	if err := e.covered(ctx, a, rules); err != nil {
		return forbid(a, "%w", err)
	}
	return nil
}

func (e escalation) clusterRole(ctx context.Context, a *registry.Attributes) error {
	role, ok := a.Object.(*rbacv1.ClusterRole)
	if !ok || free(a) || e.may(ctx, a, "escalate", "clusterroles", a.Name) {
		return nil
	}
	if err := e.refuseUncovered(ctx, a, role.Rules); err != nil {
		return err
	}
	old, _ := a.Old.(*rbacv1.ClusterRole)
	if (gathers(role) || gathers(old)) && e.covered(ctx, a, everything) != nil {
		return forbid(a, "must have cluster-admin privileges to use the aggregationRule")
	}
	return nil
}

func gathers(role *rbacv1.ClusterRole) bool {
	return role != nil && role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

func (e escalation) roleBinding(ctx context.Context, a *registry.Attributes) error {
	binding, ok := a.Object.(*rbacv1.RoleBinding)
	if !ok || free(a) {
		return nil
	}
	return e.binding(ctx, a, binding.RoleRef)
}

func (e escalation) clusterRoleBinding(ctx context.Context, a *registry.Attributes) error {
	binding, ok := a.Object.(*rbacv1.ClusterRoleBinding)
	if !ok || free(a) {
		return nil
	}
	return e.binding(ctx, a, binding.RoleRef)
}

func (e escalation) binding(ctx context.Context, a *registry.Attributes, ref rbacv1.RoleRef) error {
	resource := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[ref.Kind]
	if resource == "" {
		return nil // validation refuses it, with the field
	}
	if e.may(ctx, a, "bind", resource, ref.Name) {
		return nil
	}
	rules, err := e.access.RBAC.GetRoleReferenceRules(ctx, ref, a.Namespace)
	if view.Missing(err) {
		return apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, ref.Name)
	}
	if err != nil {
		return err
	}
	return e.refuseUncovered(ctx, a, rules)
}
