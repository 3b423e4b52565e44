package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/policies-wasm/bundle"
)

func TestAPolicyIsPushedListedAndRolledBack(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	run := func(args ...string) string { return mustBerth(t, append(args, "--kubeconfig", kubeconfig)...) }
	if out := run("policy", "push", "cpu", "../../../examples/hot-swap/v1", "--go"); !strings.Contains(out, "cpu is live") {
		t.Fatalf("push says %q", out)
	}
	if out := run("policy", "history", "cpu"); !strings.Contains(out, "live") {
		t.Errorf("history of a new policy:\n%s", out)
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
