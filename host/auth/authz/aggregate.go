package authz

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Aggregate fills the rules of each ClusterRole that has an aggregation rule
// from the roles that its selectors name, as Kubernetes' controller does. It
// returns whether something was written; the result of one role may be the
// input of the next, so it is called until nothing is.
func Aggregate(ctx context.Context, objects view.Store) (changed bool, err error) {
	roles, err := view.List[*rbacv1.ClusterRole](ctx, objects, view.ClusterRoles, "")
	if err != nil {
		return false, fmt.Errorf("aggregate roles: %w", err)
	}
	for _, role := range roles {
		if role.AggregationRule == nil || role.DeletionTimestamp != nil {
			continue
		}
		rules, err := gathered(role, roles)
		if err != nil {
			return changed, fmt.Errorf("aggregate role %s: %w", role.Name, err)
		}
		if len(rules)+len(role.Rules) == 0 || reflect.DeepEqual(rules, role.Rules) {
			continue
		}
		fresh := role.DeepCopy()
		fresh.Rules = rules
		_, err = objects.Commit(ctx, store.Op{
			Kind: store.Update, Key: view.KeyOf(view.ClusterRoles, fresh), Object: fresh, Expect: view.Revision(role),
		})
		if errors.Is(err, store.ErrConflict) || view.Missing(err) {
			return true, nil // somebody else changed it: look again
		}
		if err != nil {
			return changed, fmt.Errorf("aggregate role %s: %w", role.Name, err)
		}
		changed = true
	}
	return changed, nil
}

func gathered(into *rbacv1.ClusterRole, roles []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	for _, selector := range into.AggregationRule.ClusterRoleSelectors {
		matches, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil {
			return nil, err
		}
		for _, role := range roles {
			if role.Name == into.Name || !matches.Matches(labels.Set(role.Labels)) {
				continue
			}
			for _, rule := range role.Rules {
				known := slices.ContainsFunc(rules, func(have rbacv1.PolicyRule) bool { return reflect.DeepEqual(have, rule) })
				if !known {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}
