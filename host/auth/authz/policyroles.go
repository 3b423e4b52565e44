package authz

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Ready-made ClusterRoles for those who work on policies, bound to nobody. Each
// has what the `berth` commands of its work ask for, and what the one before it
// has:
//
//	berth:policy-reviewer   list, inspect, diff, logs, history; explain, plan, replay, rehearsals
//	berth:policy-author     upload modules, write Policies: push, canary, promote, roll back
//	berth:policy-operator   write Profiles, that is, say what decides; sign again, remove
//
// None of them lets a controller act as a ServiceAccount: its author needs the verb
// impersonate on that account besides.
const (
	RoleReviewer = "berth:policy-reviewer"
	RoleAuthor   = "berth:policy-author"
	RoleOperator = "berth:policy-operator"
)

// RoleConsole lets its subjects, by default everybody who is known, sign in at the
// console, where they see what they may see anyway.
const RoleConsole = "berth:console"

// RoleBackup lets its subjects read a backup: all that is stored, Secrets too. It is
// bound to nobody.
const RoleBackup = "berth:backup"

const backupPath = "/berth/v1/backup"

const policyGroup = "policy.berth.dev"

func policyRoles() []rbacv1.ClusterRole {
	reviewer := []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{policyGroup}, Resources: []string{"modules", "policies", "profiles"}},
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"nodes", "pods"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/explain"}},
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/berth/v1/policies", "/berth/v1/policies/*", "/berth/v1/decisions/*", "/berth/v1/explain"}},
		{Verbs: []string{"post"}, NonResourceURLs: []string{"/berth/v1/plan", "/berth/v1/rehearsal", "/berth/v1/reconciles"}},
	}
	author := append([]rbacv1.PolicyRule{
		{Verbs: []string{"create"}, APIGroups: []string{policyGroup}, Resources: []string{"modules"}},
		{Verbs: []string{"create", "update", "patch"}, APIGroups: []string{policyGroup}, Resources: []string{"policies"}},
	}, reviewer...)
	operator := append([]rbacv1.PolicyRule{
		{Verbs: []string{"update", "patch", "delete"}, APIGroups: []string{policyGroup}, Resources: []string{"modules"}},
		{Verbs: []string{"delete"}, APIGroups: []string{policyGroup}, Resources: []string{"policies"}},
		{Verbs: []string{"create", "update", "patch", "delete"}, APIGroups: []string{policyGroup}, Resources: []string{"profiles"}},
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
	}, author...)
	console := []rbacv1.PolicyRule{{Verbs: []string{"get", "post"}, NonResourceURLs: []string{"/console/v1/*"}}}
	backup := []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{backupPath}}}
	return []rbacv1.ClusterRole{
		policyRole(RoleConsole, console), policyRole(RoleReviewer, reviewer), policyRole(RoleAuthor, author),
		policyRole(RoleOperator, operator), policyRole(RoleBackup, backup),
	}
}

// withdraw takes from a stored role what earlier hosts gave it: operators could read
// backups. Rules that are only added, as Kubernetes does it, would leave that.
func withdraw(role *rbacv1.ClusterRole) (changed bool) {
	if role.Name != RoleOperator {
		return false
	}
	rules := role.Rules
	role.Rules = nil
	for _, rule := range rules {
		if slices.Contains(rule.NonResourceURLs, backupPath) {
			rule.NonResourceURLs, changed = slices.DeleteFunc(slices.Clone(rule.NonResourceURLs), func(path string) bool { return path == backupPath }), true
			if len(rule.NonResourceURLs) == 0 {
				continue
			}
		}
		role.Rules = append(role.Rules, rule)
	}
	return changed
}

func policyRole(name string, rules []rbacv1.PolicyRule) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
			Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
		},
		Rules: rules,
	}
}

// policyBindings bind those that are for everybody.
func policyBindings() []rbacv1.ClusterRoleBinding {
	everybody := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: user.AllAuthenticated}
	return []rbacv1.ClusterRoleBinding{{
		ObjectMeta: policyRole(RoleConsole, nil).ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: RoleConsole},
		Subjects:   []rbacv1.Subject{everybody},
	}}
}
