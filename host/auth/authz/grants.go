package authz

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/host/auth/view"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// grants are all bindings, by namespace and by subject. They are not changed.
type grants struct {
	versions   versions
	cluster    subjects
	namespaces map[string]subjects
}

// versions say from which state of the four resources grants were compiled.
type versions [4]int64

func versionsOf(objects view.Objects) versions {
	return versions{
		objects.Version(view.ClusterRoles), objects.Version(view.ClusterRoleBindings),
		objects.Version(view.Roles), objects.Version(view.RoleBindings),
	}
}

// subject is a user or a group; a service account is a user.
type subject struct {
	group bool
	name  string
}

type subjects map[subject][]*grant

// grant is what one binding gives one subject.
type grant struct {
	binding, roleKind, roleName, subject string
	rules                                []rbacv1.PolicyRule
	err                                  error
}

func (g *grant) String() string {
	return fmt.Sprintf("%s of %s %q to %s", g.binding, g.roleKind, g.roleName, g.subject)
}

type visitor func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool

// visit is false once the visitor has had enough.
func (s subjects) visit(who user.Info, visit visitor) bool {
	if len(s) == 0 {
		return true
	}
	if !visitAll(s[subject{name: who.GetName()}], visit) {
		return false
	}
	for _, group := range who.GetGroups() {
		if !visitAll(s[subject{group: true, name: group}], visit) {
			return false
		}
	}
	return true
}

func visitAll(all []*grant, visit visitor) bool {
	for _, g := range all {
		if g.err != nil {
			if !visit(nil, nil, g.err) {
				return false
			}
			continue
		}
		for i := range g.rules {
			if !visit(g, &g.rules[i], nil) {
				return false
			}
		}
	}
	return true
}

func compile(ctx context.Context, r *RBAC, at versions) (*grants, error) {
	index := &grants{versions: at, cluster: subjects{}, namespaces: map[string]subjects{}}
	bindings, err := view.List[*rbacv1.ClusterRoleBinding](ctx, r.objects, view.ClusterRoleBindings, "")
	if err != nil {
		return nil, err
	}
	for _, b := range bindings {
		rules, err := r.GetRoleReferenceRules(ctx, b.RoleRef, "")
		index.cluster.add(b.Subjects, "", grant{
			binding: fmt.Sprintf("ClusterRoleBinding %q", b.Name), roleKind: b.RoleRef.Kind, roleName: b.RoleRef.Name, rules: rules, err: err,
		})
	}
	local, err := view.List[*rbacv1.RoleBinding](ctx, r.objects, view.RoleBindings, "")
	if err != nil {
		return nil, err
	}
	for _, b := range local {
		rules, err := r.GetRoleReferenceRules(ctx, b.RoleRef, b.Namespace)
		in := index.namespaces[b.Namespace]
		if in == nil {
			in = subjects{}
			index.namespaces[b.Namespace] = in
		}
		in.add(b.Subjects, b.Namespace, grant{
			binding: fmt.Sprintf("RoleBinding %q", b.Name+"/"+b.Namespace), roleKind: b.RoleRef.Kind, roleName: b.RoleRef.Name, rules: rules, err: err,
		})
	}
	return index, nil
}

func (s subjects) add(who []rbacv1.Subject, namespace string, g grant) {
	for _, one := range who {
		key, ok := subjectOf(one, namespace)
		if !ok {
			continue
		}
		given := g
		given.subject = describe(one, namespace)
		s[key] = append(s[key], &given)
	}
}

// subjectOf is the identity that a binding's subject stands for; a service
// account without a namespace is one of the binding's.
func subjectOf(s rbacv1.Subject, namespace string) (subject, bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		return subject{name: s.Name}, true
	case rbacv1.GroupKind:
		return subject{group: true, name: s.Name}, true
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return subject{name: serviceaccount.MakeUsername(namespace, s.Name)}, namespace != ""
	}
	return subject{}, false
}

func describe(s rbacv1.Subject, namespace string) string {
	if s.Kind != rbacv1.ServiceAccountKind {
		return fmt.Sprintf("%s %q", s.Kind, s.Name)
	}
	if s.Namespace != "" {
		namespace = s.Namespace
	}
	return fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+namespace)
}
