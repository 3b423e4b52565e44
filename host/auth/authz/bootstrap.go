package authz

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// Bootstrap creates Kubernetes' default roles and bindings, and gives back to
// those that exist what they lack of them. Who annotated one with
// rbac.authorization.kubernetes.io/autoupdate=false keeps it as it is.
func Bootstrap(ctx context.Context, objects view.Store, log *slog.Logger, now time.Time) error {
	ops, err := missing(ctx, objects, defaults(), now)
	if err != nil {
		return fmt.Errorf("default roles: %w", err)
	}
	if len(ops) == 0 {
		return nil
	}
	if _, err := objects.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("store the default roles: %w", err)
	}
	log.Info("default roles reconciled", "written", len(ops))
	return nil
}

// policy is one default object and the resource that it belongs to.
type policy struct {
	resource string
	object   store.Object
}

func defaults() []policy {
	var all []policy
	for _, role := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles(), policyRoles()) {
		if role.Name == "system:controller:disruption-controller" {
			// Kubernetes' own reads pods as the controller manager, this one as itself.
			role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"}})
		}
		if role.Name == "system:controller:horizontal-pod-autoscaler" {
			// Kubernetes' reads the scales of its targets one by one, this one is told when
			// they change.
			list := []string{"list", "watch"}
			role.Rules = append(role.Rules,
				rbacv1.PolicyRule{Verbs: list, APIGroups: []string{"apps"}, Resources: []string{"deployments", "replicasets", "statefulsets"}},
				rbacv1.PolicyRule{Verbs: list, APIGroups: []string{""}, Resources: []string{"replicationcontrollers"}})
		}
		if role.Name == "system:controller:job-controller" {
			// Kubernetes has a controller of its own for spec.ttlSecondsAfterFinished.
			role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"delete"}, APIGroups: []string{"batch"}, Resources: []string{"jobs"}})
		}
		all = append(all, policy{view.ClusterRoles, &role})
	}
	for _, binding := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings(), policyBindings()) {
		all = append(all, policy{view.ClusterRoleBindings, &binding})
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		for _, role := range roles {
			all = append(all, policy{view.Roles, &role})
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, binding := range bindings {
			all = append(all, policy{view.RoleBindings, &binding})
		}
	}
	return all
}

func missing(ctx context.Context, objects view.Objects, all []policy, now time.Time) ([]store.Op, error) {
	var ops []store.Op
	for _, want := range all {
		key := view.KeyOf(want.resource, want.object)
		have, err := objects.Get(ctx, key)
		if view.Missing(err) {
			ops = append(ops, view.Fresh(want.resource, want.object.DeepCopyObject().(store.Object), now))
			continue
		}
		if err != nil {
			return nil, err
		}
		if have.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" {
			continue
		}
		if mended := mend(have, want.object); mended != nil {
			ops = append(ops, store.Op{Kind: store.Update, Key: key, Object: mended, Expect: view.Revision(have)})
		}
	}
	return ops, nil
}

// mend is have with what it lacks of want and without what is withdrawn, or nil if
// that changes nothing.
func mend(have, want store.Object) store.Object {
	switch want := want.(type) {
	case *rbacv1.ClusterRole:
		mended := have.DeepCopyObject().(*rbacv1.ClusterRole)
		changed := withdraw(mended)
		changed = mendMeta(&mended.ObjectMeta, &want.ObjectMeta) || changed
		if want.AggregationRule != nil {
			if mended.AggregationRule == nil {
				mended.AggregationRule, changed = want.AggregationRule, true
			}
		} else if mendRules(&mended.Rules, want.Rules) {
			changed = true
		}
		return orNil(mended, changed)
	case *rbacv1.Role:
		mended := have.DeepCopyObject().(*rbacv1.Role)
		changed := mendMeta(&mended.ObjectMeta, &want.ObjectMeta)
		return orNil(mended, mendRules(&mended.Rules, want.Rules) || changed)
	case *rbacv1.ClusterRoleBinding:
		mended := have.DeepCopyObject().(*rbacv1.ClusterRoleBinding)
		changed := mendMeta(&mended.ObjectMeta, &want.ObjectMeta)
		return orNil(mended, mendSubjects(&mended.Subjects, want.Subjects) || changed)
	case *rbacv1.RoleBinding:
		mended := have.DeepCopyObject().(*rbacv1.RoleBinding)
		changed := mendMeta(&mended.ObjectMeta, &want.ObjectMeta)
		return orNil(mended, mendSubjects(&mended.Subjects, want.Subjects) || changed)
	}
	return nil
}

func orNil(obj store.Object, changed bool) store.Object {
	if changed {
		return obj
	}
	return nil
}

func mendMeta(have, want *metav1.ObjectMeta) bool {
	changed := false
	for key, value := range want.Labels {
		if _, ok := have.Labels[key]; !ok {
			metav1.SetMetaDataLabel(have, key, value)
			changed = true
		}
	}
	for key, value := range want.Annotations {
		if _, ok := have.Annotations[key]; !ok {
			metav1.SetMetaDataAnnotation(have, key, value)
			changed = true
		}
	}
	return changed
}

func mendRules(have *[]rbacv1.PolicyRule, want []rbacv1.PolicyRule) bool {
	covered, lacking := validation.Covers(*have, want)
	*have = append(*have, lacking...)
	return !covered
}

func mendSubjects(have *[]rbacv1.Subject, want []rbacv1.Subject) bool {
	changed := false
	for _, s := range want {
		if !slices.Contains(*have, s) {
			*have, changed = append(*have, s), true
		}
	}
	return changed
}
