package main

import (
	"strings"
	"testing"
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
	if out := run("policy", "history", "cpu"); !strings.Contains(out, "Replaced") {
		t.Errorf("history after a second push:\n%s", out)
	}
	run("policy", "rollback", "cpu")
	if out := run("policy", "list"); !strings.Contains(out, "cpu") {
		t.Errorf("list:\n%s", out)
	}
}
