package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/policies-wasm/bundle"
)

func TestAPolicyIsPushedListedAndRolledBack(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	run := func(args ...string) string { return mustBerth(t, append(args, "--kubeconfig", kubeconfig)...) }
	if out := run("policy", "push", "cpu", "../../../examples/hot-swap/v1", "--go"); !strings.Contains(out, "cpu is live") || strings.Contains(out, "Warning") {
		t.Fatalf("push says %q", out)
	}
	if out := run("policy", "push", "idle", "../../../examples/hot-swap/v1", "--go", "--profile="); !strings.Contains(out, "Warning: no Profile names idle") {
		t.Errorf("push of a policy into no profile says %q", out)
	}
	if out := run("policy", "push", "idle", "../../../examples/hot-swap/v1", "--go"); !strings.Contains(out, "idle is live") || strings.Contains(out, "Warning") {
		t.Errorf("push of a policy that was in no profile says %q", out)
	}
	if out := run("policy", "history", "cpu"); !strings.Contains(out, "live") {
		t.Errorf("history of a new policy:\n%s", out)
	}
	var revisions []v1alpha1.PolicyRevision
	if err := json.Unmarshal([]byte(run("policy", "history", "cpu", "-o", "json")), &revisions); err != nil || len(revisions) != 1 || revisions[0].Left != "" {
		t.Errorf("history -o json = %+v, %v; want what is live", revisions, err)
	}
	run("policy", "push", "cpu", "../../../examples/hot-swap/v2", "--go")
	if out := run("policy", "history", "cpu"); !strings.Contains(out, "Replaced") || !strings.Contains(out, "Pushed") {
		t.Errorf("history after a second push:\n%s", out)
	}
	run("policy", "rollback", "cpu")
	if out := run("policy", "list"); !strings.Contains(out, "cpu") {
		t.Errorf("list:\n%s", out)
	}
}

func TestARollbackBringsTheFormerConfigBack(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	run := func(args ...string) string { return mustBerth(t, append(args, "--kubeconfig", kubeconfig)...) }
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.yaml"), filepath.Join(dir, "second.yaml")
	write(t, first, "resources:\n- {name: cpu, weight: 3}\n")
	write(t, second, "shape:\n- {utilization: 0, score: 10}\n- {utilization: 100, score: 0}\n")
	file := bundled(t, "priorities")
	push := func(config string) {
		run("policy", "push", "ratio", file, "--entry", "RequestedToCapacityRatio", "--config", config, "--profile", "")
	}
	config := func() string {
		var list v1alpha1.PolicyList
		if err := json.Unmarshal([]byte(run("policy", "list", "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if list.Items[i].Name == "ratio" {
				return string(list.Items[i].Spec.Config.Raw)
			}
		}
		return "no policy"
	}
	push(first)
	before := config()
	push(second)
	if now := config(); strings.Contains(now, "resources") {
		t.Errorf("the second config keeps some of the first: %s", now)
	}
	if out := run("policy", "rollback", "ratio"); !strings.Contains(out, "live") {
		t.Errorf("rollback says %s", out)
	}
	if after := config(); after != before {
		t.Errorf("after a roll-back the config is %s, want %s", after, before)
	}
}

// bundled writes one of the built-in modules into a file.
func bundled(t *testing.T, name string) string {
	t.Helper()
	all, err := bundle.Modules()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Name == name {
			file := filepath.Join(t.TempDir(), name+".wasm")
			write(t, file, string(m.Wasm))
			return file
		}
	}
	t.Fatalf("no module %s is built in", name)
	return ""
}

// connected is a client of the host that a kubeconfig names.
func connected(t *testing.T, kubeconfig string) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, client
}

// schedulable makes nodes and pods by a client, and waits for the pods to have
// nodes.
func schedulable(t *testing.T, kubeconfig string, nodes, pods int) kubernetes.Interface {
	t.Helper()
	_, client := connected(t, kubeconfig)
	amounts := v1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	for i := range nodes {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{"tier": fmt.Sprint(i % 2)}}}
		n.Status = v1.NodeStatus{Capacity: amounts, Allocatable: amounts, Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	morePods(t, client, 0, pods)
	return client
}

func onePod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "c", Image: "example.test/a:1", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("10m")}},
	}}}}
}

func morePods(t *testing.T, client kubernetes.Interface, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), onePod(fmt.Sprint("p", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bound := 0
	if !polltest.Within(time.Minute, func() bool {
		list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bound = 0
		for i := range list.Items {
			if list.Items[i].Spec.NodeName != "" {
				bound++
			}
		}
		return bound == from+n
	}) {
		t.Fatalf("%d of %d pods have a node", bound, from+n)
	}
}

// handMade is a predicate that refuses the nodes which a bit of their row says.
func handMade(t *testing.T, g policytest.Guest) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "made.wasm")
	write(t, file, string(g.Bytes()))
	return file
}

func TestAPushShowsWhatWouldGoElsewhere(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	run := func(args ...string) string { return mustBerth(t, append(args, "--kubeconfig", kubeconfig)...) }
	schedulable(t, kubeconfig, 4, 40)
	strict := handMade(t, policytest.Guest{Name: "made", Version: "strict", Mask: 1, Refuse: 1})
	out := run("policy", "push", "made", strict, "--dry-run")
	if !strings.Contains(out, "about 40 pods again") || !strings.Contains(out, "made refuses n1: version strict says no") || strings.Contains(out, "is live") {
		t.Errorf("a dry run says:\n%s", out)
	}
	if out := run("policy", "list"); strings.Contains(out, "made") {
		t.Errorf("a dry run left a policy:\n%s", out)
	}
	mild := handMade(t, policytest.Guest{Name: "made", Version: "mild", Refuse: -1})
	if out := run("policy", "push", "made", mild); !strings.Contains(out, "all would have ended as they did") || !strings.Contains(out, "is live") {
		t.Errorf("a push says:\n%s", out)
	}
	gate := handMade(t, policytest.Guest{Name: "gated", Version: "1", Kind: "gate"})
	if out := run("policy", "push", "gated", gate, "--dry-run"); !strings.Contains(out, "nothing to rehearse: a gate decides about no placement") {
		t.Errorf("a dry run of a gate says:\n%s", out)
	}

	file := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, file, pod("a")+"---\n"+pod("b"))
	none := handMade(t, policytest.Guest{Name: "made", Version: "none"})
	out, err := berth(t, "plan", "-f", file, "--policy", "made="+none, "--kubeconfig", kubeconfig)
	var code exitCode
	if !errors.As(err, &code) || code != 2 || !strings.Contains(out, "LIVE POLICIES SAY") || !strings.Contains(out, "version none says no") {
		t.Errorf("a plan with a policy that refuses all = %v\n%s", err, out)
	}
	if out := run("plan", "-f", file, "--policy", "made="+mild); !strings.Contains(out, "the same") {
		t.Errorf("a plan with the policy that is live:\n%s", out)
	}
}

func TestACanaryIsPushedWatchedAndRolledBack(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	run := func(args ...string) string { return mustBerth(t, append(args, "--kubeconfig", kubeconfig)...) }
	client := schedulable(t, kubeconfig, 4, 1)
	old := handMade(t, policytest.Guest{Name: "made", Version: "old", Refuse: -1})
	if out, err := berth(t, "policy", "push", "made", old, "--canary", "10", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "push it without --canary") {
		t.Errorf("a canary of nothing = %v\n%s", err, out)
	}
	run("policy", "push", "made", old)
	if out := run("policy", "push", "made", old, "--canary", "10"); !strings.Contains(out, "nothing changed: this module is what policy made runs already") {
		t.Errorf("a canary of what is live says:\n%s", out)
	}
	young := handMade(t, policytest.Guest{Name: "made", Version: "young", Mask: 1, Refuse: 1})
	if out := run("policy", "push", "made", young, "--canary", "100"); !strings.Contains(out, "decides 100 % of the pods") {
		t.Errorf("a canary's push says:\n%s", out)
	}
	morePods(t, client, 1, 20)
	eventually(t, "the comparison is written down", func() bool {
		out, err := berth(t, "policy", "diff", "made", "--kubeconfig", kubeconfig)
		return err == nil && strings.Contains(out, "refuses: version young says no") && strings.Contains(out, "20 pods compared")
	})
	if out := run("policy", "history", "made"); !strings.Contains(out, "on trial") || !strings.Contains(out, "refuses nodes to 20") {
		t.Errorf("history during a trial:\n%s", out)
	}
	if out := run("policy", "rollback", "made"); !strings.Contains(out, "is live") {
		t.Errorf("rollback says:\n%s", out)
	}
	run("policy", "push", "made", young, "--canary", "100", "--max-refusals", "5%")
	morePods(t, client, 21, 5)
	eventually(t, "the canary is rolled back by itself", func() bool {
		out := run("policy", "history", "made")
		return strings.Contains(out, "AutoRolledBack") && strings.Contains(out, "RefusesTooMuch")
	})
	if _, err := berth(t, "policy", "promote", "made", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "rolled back") {
		t.Errorf("a canary that was rolled back is promoted: %v", err)
	}
	// As its message says, pushed without --canary it goes live.
	if out := run("policy", "push", "made", young); !strings.Contains(out, "predicate made is live") {
		t.Errorf("the module of a canary that was rolled back is pushed:\n%s", out)
	}
	run("policy", "rollback", "made")
	// One that runs goes on beside another module, unless it is that one.
	run("policy", "push", "made", young, "--canary", "50")
	if out := run("policy", "push", "made", handMade(t, policytest.Guest{Name: "made", Version: "second", Refuse: -1})); !strings.Contains(out, "has a canary") {
		t.Errorf("a push beside a canary says:\n%s", out)
	}
	if out := run("policy", "push", "made", young); !strings.Contains(out, "predicate made is live") {
		t.Errorf("a push of the canary's module says:\n%s", out)
	}
	run("policy", "rollback", "made")
	run("policy", "push", "made", handMade(t, policytest.Guest{Name: "made", Version: "third", Refuse: -1}), "--canary", "50")
	run("policy", "promote", "made")
	if out := run("policy", "history", "made"); !strings.Contains(out, "Promoted") {
		t.Errorf("history after a promotion:\n%s", out)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	polltest.Until(t, what, holds)
}
