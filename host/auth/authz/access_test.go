package authz

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/auth/view/viewtest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// placed finds pods by going through all of them.
type placed struct{ objects view.Objects }

func (p placed) PodsOn(ctx context.Context, node string) ([]*corev1.Pod, error) {
	pods, err := view.List[*corev1.Pod](ctx, p.objects, view.Pods, "")
	var on []*corev1.Pod
	for _, pod := range pods {
		if pod.Spec.NodeName == node {
			on = append(on, pod)
		}
	}
	return on, err
}

func who(name string, groups ...string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}
}

// ask reads "verb group/resource[/sub] [namespace/]name [field=value]" or
// "verb /path".
func ask(t *testing.T, by user.Info, text string) authorizer.AttributesRecord {
	t.Helper()
	parts := strings.Fields(text)
	a := authorizer.AttributesRecord{User: by, Verb: parts[0]}
	if strings.HasPrefix(parts[1], "/") {
		a.Path = parts[1]
		return a
	}
	a.ResourceRequest = true
	resource := strings.Split(parts[1], "/")
	a.Resource, a.APIGroup, _ = strings.Cut(resource[0], ".")
	if len(resource) > 1 {
		a.Subresource = resource[1]
	}
	for _, part := range parts[2:] {
		if strings.Contains(part, "=") {
			selector, err := fields.ParseSelector(part)
			if err != nil {
				t.Fatal(err)
			}
			a.FieldSelectorRequirements = selector.Requirements()
			continue
		}
		a.Namespace, a.Name, _ = strings.Cut(part, "/")
	}
	return a
}

func check(t *testing.T, a authorizer.Authorizer, by user.Info, text string, want bool) {
	t.Helper()
	decision, reason, err := a.Authorize(t.Context(), ask(t, by, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if got := decision == authorizer.DecisionAllow; got != want {
		t.Errorf("%s may %s = %v (%s), want %v", by.GetName(), text, got, reason, want)
	}
}

func bootstrapped(t *testing.T) *viewtest.Memory {
	t.Helper()
	objects := &viewtest.Memory{}
	if err := Bootstrap(t.Context(), objects, slog.New(slog.DiscardHandler), time.Now()); err != nil {
		t.Fatal(err)
	}
	for changed := true; changed; {
		var err error
		if changed, err = Aggregate(t.Context(), objects); err != nil {
			t.Fatal(err)
		}
	}
	return objects
}

func TestDefaultRoles(t *testing.T) {
	t.Parallel()
	objects := bootstrapped(t)
	objects.Put(view.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "erin"}, {Kind: "ServiceAccount", Name: "bot"}, {Kind: "Group", Name: "team"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	})
	a := New(objects, placed{objects})
	bot := serviceaccount.UserInfo("dev", "bot", "1")
	tests := []struct {
		by   user.Info
		ask  string
		want bool
	}{
		{who("root", "system:masters"), "delete secrets kube-system/x", true},
		{who("root", "system:masters"), "get /metrics", true},
		{who("mallory", "system:master"), "delete secrets kube-system/x", false},
		{who("system:masters"), "delete secrets kube-system/x", false},
		{who("system:kube-scheduler"), "create pods/binding default/x", true},
		{who("system:kube-scheduler"), "delete nodes /n1", false},
		{who("erin"), "create pods dev/x", true},
		{who("erin"), "create deployments.apps dev/x", true},
		{who("erin"), "create pods prod/x", false},
		{who("erin"), "create rolebindings.rbac.authorization.k8s.io dev/x", false},
		{who("frank", "team"), "create pods dev/x", true},
		{bot, "create pods dev/x", true},
		{serviceaccount.UserInfo("prod", "bot", "1"), "create pods dev/x", false},
		{who("anyone"), "create selfsubjectaccessreviews.authorization.k8s.io", true},
		{who("anyone"), "get /api", true},
		{who("anyone"), "get /openapi/v3", true},
		{who("anyone"), "get /metrics", false},
		{who("anyone"), "list pods", false},
		{&user.DefaultInfo{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, "get /healthz", true},
		{&user.DefaultInfo{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, "get /version", true},
		{&user.DefaultInfo{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, "get /api", false},
	}
	for _, test := range tests {
		check(t, a, test.by, test.ask, test.want)
	}
}

func TestAGrantHoldsFromTheNextRequestOn(t *testing.T) {
	t.Parallel()
	objects := bootstrapped(t)
	a := New(objects, placed{objects})
	by := who("grace")
	check(t, a, by, "get pods dev/x", false)
	objects.Put(view.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "grace"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "grace"}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
	})
	check(t, a, by, "get pods dev/x", true)
	check(t, a, by, "get secrets dev/x", false)
	objects.Drop(view.ClusterRoleBindings, "", "grace")
	check(t, a, by, "get pods dev/x", false)
}

func TestABindingToARoleThatIsMissingSaysSo(t *testing.T) {
	t.Parallel()
	objects := bootstrapped(t)
	objects.Put(view.RoleBindings, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "x"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "erin"}},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "nowhere"},
	})
	decision, reason, err := New(objects, placed{objects}).Authorize(t.Context(), ask(t, who("erin"), "get pods dev/x"))
	if err != nil || decision == authorizer.DecisionAllow || !strings.Contains(reason, "nowhere") {
		t.Errorf("Authorize = %v, %q, %v", decision, reason, err)
	}
}

func TestBootstrapRunsTwiceAndMends(t *testing.T) {
	t.Parallel()
	objects := bootstrapped(t)
	log := slog.New(slog.DiscardHandler)
	before := versionsOf(objects)
	if err := Bootstrap(t.Context(), objects, log, time.Now()); err != nil {
		t.Fatal(err)
	}
	if after := versionsOf(objects); after != before {
		t.Errorf("the second start wrote: %v, then %v", before, after)
	}
	spoil := func(keep bool) *rbacv1.ClusterRole {
		role, err := view.Get[*rbacv1.ClusterRole](t.Context(), objects, view.ClusterRoles, "", "system:kube-scheduler")
		if err != nil {
			t.Fatal(err)
		}
		role = role.DeepCopy()
		role.Rules = role.Rules[:1]
		if keep {
			role.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
		}
		objects.Put(view.ClusterRoles, role)
		if err := Bootstrap(t.Context(), objects, log, time.Now()); err != nil {
			t.Fatal(err)
		}
		role, err = view.Get[*rbacv1.ClusterRole](t.Context(), objects, view.ClusterRoles, "", "system:kube-scheduler")
		if err != nil {
			t.Fatal(err)
		}
		return role
	}
	if got := spoil(false); len(got.Rules) < 2 {
		t.Error("a default role that lost rules did not get them back")
	}
	if got := spoil(true); len(got.Rules) != 1 {
		t.Error("a role whose owner keeps it was mended")
	}
}

// A backup holds all Secrets, so that who writes Profiles may not read it.
func TestABackupIsReadByARoleOfItsOwn(t *testing.T) {
	t.Parallel()
	objects := bootstrapped(t)
	role, err := view.Get[*rbacv1.ClusterRole](t.Context(), objects, view.ClusterRoles, "", RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	role = role.DeepCopy() // as hosts before had it
	get := []string{"get"}
	role.Rules = append(role.Rules,
		rbacv1.PolicyRule{Verbs: get, NonResourceURLs: []string{"/berth/v1/backup", "/metrics"}},
		rbacv1.PolicyRule{Verbs: get, NonResourceURLs: []string{"/berth/v1/backup"}},
		rbacv1.PolicyRule{Verbs: get, NonResourceURLs: []string{"/mine"}})
	objects.Put(view.ClusterRoles, role)
	for name, role := range map[string]string{"otto": RoleOperator, "bea": RoleBackup} {
		objects.Put(view.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects:   []rbacv1.Subject{{Kind: "User", Name: name}},
			RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
		})
	}
	if err := Bootstrap(t.Context(), objects, slog.New(slog.DiscardHandler), time.Now()); err != nil {
		t.Fatal(err)
	}
	before := versionsOf(objects)
	if err := Bootstrap(t.Context(), objects, slog.New(slog.DiscardHandler), time.Now()); err != nil {
		t.Fatal(err)
	}
	if after := versionsOf(objects); after != before {
		t.Errorf("the second start wrote: %v, then %v", before, after)
	}
	a := New(objects, placed{objects})
	check(t, a, who("otto"), "get /berth/v1/backup", false)
	check(t, a, who("otto"), "get /metrics", true)
	check(t, a, who("otto"), "get /mine", true)
	check(t, a, who("otto"), "create profiles.policy.berth.dev /x", true)
	check(t, a, who("bea"), "get /berth/v1/backup", true)
	check(t, a, who("bea"), "get /metrics", false)
	check(t, a, who("anyone"), "get /berth/v1/backup", false)
}

func TestAggregatedRolesFollowTheirParts(t *testing.T) {
	t.Parallel()
	objects := bootstrapped(t)
	objects.Put(view.ClusterRoles, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "boats", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"boats"}, Verbs: []string{"get"}}},
	})
	for changed := true; changed; {
		var err error
		if changed, err = Aggregate(t.Context(), objects); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"view", "edit", "admin"} {
		role, err := view.Get[*rbacv1.ClusterRole](t.Context(), objects, view.ClusterRoles, "", name)
		if err != nil {
			t.Fatal(err)
		}
		if last := role.Rules; len(last) < 10 || !strings.Contains(role.String(), "boats") {
			t.Errorf("%s has %d rules and no boats", name, len(last))
		}
	}
}

func BenchmarkAuthorizeServiceAccount(b *testing.B) {
	objects := &viewtest.Memory{}
	if err := Bootstrap(b.Context(), objects, slog.New(slog.DiscardHandler), time.Now()); err != nil {
		b.Fatal(err)
	}
	a := New(objects, placed{objects})
	by := who("system:kube-scheduler")
	record := authorizer.AttributesRecord{User: by, Verb: "create", Resource: "pods", Subresource: "binding", Namespace: "default", Name: "x", ResourceRequest: true}
	b.ReportAllocs()
	for b.Loop() {
		if decision, _, _ := a.Authorize(b.Context(), record); decision != authorizer.DecisionAllow {
			b.Fatal("denied")
		}
	}
}
