package host_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy/policytest"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/polltest"
)

// maker is a controller that wants a ConfigMap of some name beside each
// PodTemplate; with no name it traps when it is asked.
func maker(name string) []byte {
	const manifestAt, answerAt = 4096, 8192
	manifest := `{"abi":1,"module":"maker","version":"1","policies":[{"name":"maker","kind":"controller","parent":{"apiVersion":"v1","kind":"PodTemplate"},"children":[{"apiVersion":"v1","kind":"ConfigMap","fields":[]}]}]}`
	answer := fmt.Sprintf(`{"create":[{"count":1,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}}]}`, name)
	return policytest.Guest{Name: "maker", Version: name, Kind: "controller", Refuse: -1, Also: func(m *Module) {
		m.Data(manifestAt, []byte(manifest))
		m.Drop("berth_manifest").Export("berth_manifest", Sig(nil, I64), nil, I64Const(manifestAt<<32|int64(len(manifest))))
		m.Data(answerAt, []byte(answer))
		code := I64Const(answerAt<<32 | int64(len(answer)))
		if name == "" {
			code = Op(0)
		}
		m.Export("berth_reconcile", Sig([]byte{I32}, I64), nil, code)
	}}.Bytes()
}

func pushMaker(t *testing.T, serving host.Serving, name, spec string) {
	t.Helper()
	object := fmt.Sprintf(`{"apiVersion":"policy.berth.dev/v1alpha1","kind":"Policy","metadata":{"name":%q},"spec":{"entry":"maker","serviceAccount":{"namespace":"default","name":"maker"},%s}}`, name, spec)
	if code, text := ask(t, serving, "POST", "/apis/policy.berth.dev/v1alpha1/policies", object); code != 201 {
		t.Fatalf("POST = %d %s", code, text)
	}
}

// parents makes a PodTemplate in each of some namespaces.
func parents(t *testing.T, client kubernetes.Interface, namespaces ...string) {
	t.Helper()
	for _, name := range namespaces {
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		template := &v1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "parent"}, Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
		}}
		if _, err := client.CoreV1().PodTemplates(name).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// makes waits until each namespace has a ConfigMap of one of the names, and
// tells which; in none it may have two.
func makes(t *testing.T, client kubernetes.Interface, namespaces []string, names ...string) (made map[string]int) {
	t.Helper()
	made = map[string]int{}
	for _, namespace := range namespaces {
		found := ""
		polltest.Within(time.Minute, func() bool {
			for _, name := range names {
				_, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
				if err == nil && found != "" && found != name {
					t.Fatalf("two made a ConfigMap in %s: %s and %s", namespace, found, name)
				}
				if err == nil {
					found = name
				} else if !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
			}
			return found != ""
		})
		made[found]++
	}
	return made
}

func several(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

// A shadow is asked about all parents beside who decides, stores nothing, and
// what it wants otherwise is told.
func TestAShadowOfAControllerIsComparedAndStoresNothing(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	grant(t, admin, "maker", "cluster-admin", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "maker"})
	live, other := uploaded(t, admin, maker("one")), uploaded(t, admin, maker("two"))
	pushMaker(t, serving, "maker", fmt.Sprintf(`"module":%q`, live))
	pushMaker(t, serving, "same", fmt.Sprintf(`"module":%q,"mode":"Shadow"`, live))
	pushMaker(t, serving, "other", fmt.Sprintf(`"module":%q,"mode":"Shadow"`, other))
	for _, name := range []string{"maker", "same", "other"} {
		waitForPolicy(t, serving, name, `"set":`)
	}
	namespaces := several("shadow", 3)
	parents(t, admin, namespaces...)
	if made := makes(t, admin, namespaces, "one", "two"); made["one"] != 3 {
		t.Errorf("made are %v, want all by the live one", made)
	}
	waitForPolicy(t, serving, "other", `"parent":"PodTemplate shadow-`)
	waitForPolicy(t, serving, "other", `"trial":"creates ConfigMap two"`)
	waitForPolicy(t, serving, "same", `"answers":`)
	if _, text := ask(t, serving, "GET", "/apis/policy.berth.dev/v1alpha1/policies/same", ""); strings.Contains(text, "otherwise") {
		t.Errorf("a shadow of the very module answers otherwise: %s", text)
	}
	for _, namespace := range namespaces {
		if _, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "two", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("what the shadow wants is made in %s: %v", namespace, err)
		}
	}
}

// A canary decides about its share of the parents and nobody else does; when it
// is withdrawn, or fails, the live one decides about these too.
func TestACanaryOfAControllerDecidesItsShare(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	grant(t, admin, "maker", "cluster-admin", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "maker"})
	modules := map[string]string{}
	for _, name := range []string{"one", "two", ""} {
		modules[name] = uploaded(t, admin, maker(name))
	}
	pushMaker(t, serving, "maker", fmt.Sprintf(`"module":%q,"canary":{"module":%q,"share":50}`, modules["one"], modules["two"]))
	waitForPolicy(t, serving, "maker", `"phase":"Running"`)
	namespaces := several("canary", 24)
	parents(t, admin, namespaces...)
	if made := makes(t, admin, namespaces, "one", "two"); made["one"] == 0 || made["two"] == 0 || made["one"]+made["two"] != len(namespaces) {
		t.Errorf("made are %v, want some by each", made)
	}
	waitForPolicy(t, serving, "maker", `"live":"creates ConfigMap one","trial":"creates ConfigMap two"`)

	change := func(spec string) {
		t.Helper()
		err := admin.CoreV1().RESTClient().Patch("application/merge-patch+json").AbsPath("/apis/policy.berth.dev/v1alpha1/policies/maker").
			Body([]byte(`{"spec":` + spec + `}`)).Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
	change(`{"canary":null}`)
	if made := makes(t, admin, namespaces, "one"); made["one"] != len(namespaces) {
		t.Errorf("after the canary was withdrawn made are %v", made)
	}

	change(fmt.Sprintf(`{"canary":{"module":%q,"share":100}}`, modules[""]))
	waitForPolicy(t, serving, "maker", `"phase":"RolledBack"`)
	later := several("later", 5)
	parents(t, admin, later...)
	if made := makes(t, admin, later, "one"); made["one"] != len(later) {
		t.Errorf("after the canary trapped made are %v", made)
	}
	change(fmt.Sprintf(`{"canary":{"module":%q,"share":50,"maxRefusals":"10%%"}}`, modules["two"]))
	waitForPolicy(t, serving, "maker", "a controller refuses no nodes")
}
