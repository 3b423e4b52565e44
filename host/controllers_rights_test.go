package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy/policytest"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/polltest"
)

// climber is a controller that binds its author to cluster-admin as soon as there
// is a ConfigMap, and reads Secrets.
func climber() []byte {
	const manifestAt, answerAt = 4096, 8192
	manifest := `{"abi":1,"module":"climber","version":"1","policies":[{"name":"climber","kind":"controller","parent":{"apiVersion":"v1","kind":"ConfigMap","fields":["data"]},"children":[{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","fields":[]}],"related":[{"apiVersion":"v1","kind":"Secret","fields":["data"]}]}]}`
	answer := `{"create":[{"count":1,"object":{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"climbed"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"mallory"}]}}]}`
	return policytest.Guest{Name: "climber", Version: "1", Kind: "controller", Refuse: -1, Also: func(m *Module) {
		m.Data(manifestAt, []byte(manifest))
		m.Drop("berth_manifest").Export("berth_manifest", Sig(nil, I64), nil, I64Const(manifestAt<<32|int64(len(manifest))))
		m.Data(answerAt, []byte(answer))
		m.Export("berth_reconcile", Sig([]byte{I32}, I64), nil, I64Const(answerAt<<32|int64(len(answer))))
	}}.Bytes()
}

func grant(t *testing.T, admin kubernetes.Interface, name, role string, subject rbacv1.Subject) {
	t.Helper()
	_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// role makes a ClusterRole of rules such as "list,watch secrets".
func role(t *testing.T, admin kubernetes.Interface, name string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	_, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// An author of policies is no more than RBAC makes them: what their controllers
// do, the ServiceAccount must be allowed to do, and they to be that account.
func TestAControllersAuthorGainsNothing(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	grant(t, admin, "mallory", "berth:policy-author", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "mallory"})
	mallory := impersonating(t, serving, "mallory")
	module := uploaded(t, mallory, climber())
	put := func(account string) error { return putPolicy(t, mallory, module, account) }

	if err := put(`{"namespace":"kube-system","name":"replicaset-controller"}`); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not impersonate") {
		t.Fatalf("another's ServiceAccount is lent: %v", err)
	}
	if err := put(`null`); err != nil {
		t.Fatal(err)
	}
	waitForPolicy(t, serving, "climber", "spec.serviceAccount")

	role(t, admin, "be-climber", rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"climber"}})
	grant(t, admin, "be-climber", "be-climber", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "mallory"})
	if err := put(`{"namespace":"default","name":"climber"}`); err != nil {
		t.Fatal(err)
	}
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bait"}}
	if _, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "climber"}
	waitForPolicy(t, serving, "climber", `"phase":"NotRunning"`)
	waitForPolicy(t, serving, "climber", `"type":"Live","status":"False"`)
	waitForNote(t, serving, `it does not run: `)
	waitForNote(t, serving, `cannot list resource "configmaps"`)
	role(t, admin, "configmaps", rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
	grant(t, admin, "configmaps", "configmaps", account)
	waitForNote(t, serving, `cannot list resource "rolebindings"`)
	role(t, admin, "rolebindings", rbacv1.PolicyRule{Verbs: []string{"list", "watch", "create"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}})
	grant(t, admin, "rolebindings", "rolebindings", account)
	waitForNote(t, serving, `cannot list resource "secrets"`)
	role(t, admin, "secrets", rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"secrets"}})
	grant(t, admin, "secrets", "secrets", account)
	waitForPolicy(t, serving, "climber", `"phase":"Live"`)
	// It may create RoleBindings now, and still none to rights that it lacks.
	waitForNote(t, serving, "attempting to grant RBAC permissions not currently held")
	if _, err := admin.RbacV1().RoleBindings("default").Get(t.Context(), "climbed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("RoleBinding climbed: %v, want none", err)
	}
}

// The same program in two Policies acts as each one's account.
func TestOneControllerActsAsTwoAccounts(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	module := uploaded(t, admin, climber())
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bait"}}
	if _, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		object := fmt.Sprintf(`{"apiVersion":"policy.berth.dev/v1alpha1","kind":"Policy","metadata":{"name":%q},"spec":{"module":%q,"entry":"climber","serviceAccount":{"namespace":"default","name":%[1]q}}}`, name, module)
		if code, text := ask(t, serving, "POST", "/apis/policy.berth.dev/v1alpha1/policies", object); code != 201 {
			t.Fatalf("POST = %d %s", code, text)
		}
	}
	for _, name := range []string{"first", "second"} {
		waitFor(t, serving, "/berth/v1/policies/"+name+"/logs", "system:serviceaccount:default:"+name)
	}
}

// Of two that are the same, the second says that it is idle.
func TestASecondOfTheSameControllerSaysThatItIsIdle(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	module := uploaded(t, admin, climber())
	for _, name := range []string{"first", "second"} {
		object := fmt.Sprintf(`{"apiVersion":"policy.berth.dev/v1alpha1","kind":"Policy","metadata":{"name":%q},"spec":{"module":%q,"entry":"climber","serviceAccount":{"namespace":"kube-system","name":"berth"}}}`, name, module)
		if code, text := ask(t, serving, "POST", "/apis/policy.berth.dev/v1alpha1/policies", object); code != 201 {
			t.Fatalf("POST = %d %s", code, text)
		}
	}
	waitForPolicy(t, serving, "second", "policy first is the same module, config and ServiceAccount, and runs")
}

// impersonating is a client of another user.
func impersonating(t *testing.T, serving host.Serving, name string) kubernetes.Interface {
	t.Helper()
	config := adminConfig(t, serving)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	return clientOf(t, config)
}

func uploaded(t *testing.T, client kubernetes.Interface, wasm []byte) (name string) {
	t.Helper()
	var m metav1.PartialObjectMetadata
	body, err := client.CoreV1().RESTClient().Post().AbsPath("/apis/policy.berth.dev/v1alpha1/modules").
		SetHeader("Content-Type", "application/wasm").Body(wasm).DoRaw(t.Context())
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Name
}

func putPolicy(t *testing.T, client kubernetes.Interface, module, account string) error {
	t.Helper()
	const path = "/apis/policy.berth.dev/v1alpha1/policies"
	spec := fmt.Sprintf(`{"spec":{"module":%q,"entry":"climber","serviceAccount":%s}}`, module, account)
	err := client.CoreV1().RESTClient().Patch("application/merge-patch+json").AbsPath(path + "/climber").Body([]byte(spec)).Do(t.Context()).Error()
	if !apierrors.IsNotFound(err) {
		return err
	}
	object := `{"apiVersion":"policy.berth.dev/v1alpha1","kind":"Policy","metadata":{"name":"climber"},` + spec[1:]
	return client.CoreV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(object)).Do(t.Context()).Error()
}

// waitForPolicy waits until a policy's status tells something.
func waitForPolicy(t *testing.T, serving host.Serving, name, want string) {
	t.Helper()
	waitFor(t, serving, "/apis/policy.berth.dev/v1alpha1/policies/"+name, want)
}

// waitForNote waits until the log of climber's guests tells something.
func waitForNote(t *testing.T, serving host.Serving, want string) {
	t.Helper()
	quoted, _ := json.Marshal(want)
	waitFor(t, serving, "/berth/v1/policies/climber/logs", strings.Trim(string(quoted), `"`))
}

func waitFor(t *testing.T, serving host.Serving, path, want string) {
	t.Helper()
	text := ""
	if !polltest.Within(time.Minute, func() bool { _, text = ask(t, serving, "GET", path, ""); return strings.Contains(text, want) }) {
		t.Fatalf("%s does not tell %q: %s", path, want, text)
	}
}

func adminConfig(t *testing.T, serving host.Serving) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", serving.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
