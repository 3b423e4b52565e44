package host_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/polltest"
)

// guestKinds are all kinds of guests, what their manifest says beside, and the
// export in which they are asked.
var guestKinds = []struct{ name, kind, more, export string }{
	{"predicate", "predicate", `"scope":"row"`, "berth_filter"},
	{"set", "predicate", `"scope":"set"`, "berth_filter"},
	{"priority", "priority", `"scope":"row"`, "berth_score"},
	{"gate", "gate", `"conditionTypes":["%s"]`, "berth_gate"},
	{"controller", "controller", `"parent":{"apiVersion":"v1","kind":"ConfigMap","fields":["data"]},"children":[{"apiVersion":"v1","kind":"Secret","fields":["data"]}]`, "berth_reconcile"},
}

var guestHarms = map[string][]byte{
	"spins": Forever(),
	"traps": Op(0),
	"grows": Forever(I32Const(16), Op(0x40, 0, 0x1a)),
	"lies":  Seq(I64Const(1<<62|10), Op(0x0f)), // an answer outside of its memory
}

// harmful is a policy of that name which does harm in an export.
func harmful(name, kind, more, export string, harm []byte) []byte {
	const at = 3 << 20
	if strings.Contains(more, "%s") {
		more = fmt.Sprintf(more, name)
	}
	manifest := fmt.Sprintf(`{"abi":1,"module":"harm","version":"1","policies":[{"name":%q,"kind":%q,"reads":["node.labels"],%s}]}`, name, kind, more)
	return policytest.Guest{Name: name, Version: "1", Kind: kind, Refuse: -1, Also: func(m *Module) {
		m.Data(at, []byte(manifest))
		m.Drop("berth_manifest").Export("berth_manifest", Sig(nil, I64), nil, I64Const(at<<32|int64(len(manifest))))
		m.Drop(export).Export(export, Sig([]byte{I32}, I64), nil, harm, I64Const(0))
	}}.Bytes()
}

// postObject creates an object of Berth's own kinds.
func postObject(t *testing.T, s host.Serving, resource, kind string, object any) (int, string) {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	fields["apiVersion"], fields["kind"] = "policy.berth.dev/v1alpha1", kind
	if data, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return ask(t, s, "POST", "/apis/policy.berth.dev/v1alpha1/"+resource, string(data))
}

func postModule(t *testing.T, s host.Serving, wasm []byte) (int, string) {
	t.Helper()
	return postObject(t, s, "modules", "Module", &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}, Spec: v1alpha1.ModuleSpec{Wasm: wasm}})
}

// push brings a policy in as kubectl would; it fails open.
func push(t *testing.T, s host.Serving, name string, wasm []byte) {
	t.Helper()
	code, text := postModule(t, s, wasm)
	if code != http.StatusCreated {
		t.Fatalf("push %s = %d %s", name, code, text)
	}
	var m v1alpha1.Module
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	// The account may read all kinds: a controller is to be asked.
	account := &v1alpha1.ServiceAccountReference{Namespace: "kube-system", Name: "generic-garbage-collector"}
	p := &v1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PolicySpec{Module: m.Name, Entry: name, FailureMode: v1alpha1.Open, ServiceAccount: account}}
	if code, text := postObject(t, s, "policies", "Policy", p); code != http.StatusCreated {
		t.Fatalf("push %s = %d %s", name, code, text)
	}
}

// steadily asks the API again and again until its result is called, which tells
// how often.
func steadily(t *testing.T, do func() error) func() int {
	done := make(chan struct{})
	var group sync.WaitGroup
	asked := 0
	group.Go(func() {
		for ; ; asked++ {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if err := do(); err != nil {
				t.Errorf("the API meanwhile: %v", err)
				return
			}
		}
	})
	return func() int {
		close(done)
		group.Wait()
		return asked
	}
}

// TestAHostServesThroughoutHostileModules lets each kind of guest do each kind of
// harm in one host at once: the API answers, other policies decide as before,
// and each of them is known to have failed.
func TestAHostServesThroughoutHostileModules(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir())
	createNode(t, client, "n1")
	profile := &v1alpha1.Profile{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}}
	var names, gates []string
	config := client.CoreV1().ConfigMaps("default")
	stop := steadily(t, func() error {
		if _, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{}); err != nil {
			return err
		}
		if _, err := config.Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		return config.Delete(t.Context(), "c", metav1.DeleteOptions{})
	})
	for _, k := range guestKinds {
		for how, harm := range guestHarms {
			name := k.name + "-" + how
			push(t, serving, name, harmful(name, k.kind, k.more, k.export, harm))
			names = append(names, name)
			switch k.kind {
			case "predicate":
				profile.Spec.Predicates = append(profile.Spec.Predicates, v1alpha1.ProfilePredicate{Name: name})
			case "priority":
				profile.Spec.Priorities = append(profile.Spec.Priorities, v1alpha1.ProfilePriority{Name: name, Weight: 1})
			case "gate":
				gates = append(gates, name)
			}
		}
	}
	for what, wasm := range map[string][]byte{
		"text":           []byte("(module)"),
		"a loop at once": policytest.Guest{Name: "x", Also: func(m *Module) { m.Export("_initialize", Sig(nil), nil, Forever()) }}.Bytes(),
		"a large table":  policytest.Guest{Name: "x", Also: func(m *Module) { m.Sizes = []uint32{1<<32 - 1} }}.Bytes(),
		"nested blocks":  harmful("x", "predicate", `"scope":"row"`, "berth_filter", Seq(Times(100_000, Op(0x02, Void)), Times(100_000, Op(0x0b)))),
	} {
		if code, text := postModule(t, serving, wasm); code != http.StatusBadRequest {
			t.Errorf("%s = %d %s, want it refused", what, code, text)
		}
	}
	if code, text := postObject(t, serving, "profiles", "Profile", profile); code != http.StatusCreated {
		t.Fatalf("the profile = %d %s", code, text)
	}
	for i := range 8 {
		create(t, client, plainPod(fmt.Sprint("plain-", i)))
		pod := plainPod(fmt.Sprint("hostile-", i))
		pod.Spec.SchedulerName = "hostile"
		for _, g := range gates {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, v1.PodReadinessGate{ConditionType: v1.PodConditionType(g)})
		}
		create(t, client, pod)
		bound(t, client, fmt.Sprint("plain-", i))
		bound(t, client, fmt.Sprint("hostile-", i)) // since all of them fail open
	}
	awaitFailures(t, serving, names)
	if asked := stop(); asked < 10 {
		t.Errorf("the API was asked %d times meanwhile", asked)
	}
}

// awaitFailures waits until each of the policies has failed, and no other.
func awaitFailures(t *testing.T, s host.Serving, names []string) {
	t.Helper()
	missing := map[string]bool{}
	if polltest.Within(time.Minute, func() bool {
		for _, name := range names {
			missing[name] = true
		}
		var all []sandbox.Figures
		askJSON(t, s, "GET", berthapi.FiguresPath, "", &all)
		for _, f := range all {
			if f.Failures > 0 && !missing[f.Name] {
				t.Fatalf("%s failed %d times: %s", f.Name, f.Failures, f.LastFailure)
			}
			if f.Failures > 0 {
				delete(missing, f.Name)
			}
		}
		return len(missing) == 0
	}) {
		return
	}
	t.Errorf("these did no harm, though they were asked to: %v", missing)
}
