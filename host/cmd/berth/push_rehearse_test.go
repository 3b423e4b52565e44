package main

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/policytest"
)

func TestAPushObeysItsRehearsal(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	run := func(args ...string) (string, error) { return berth(t, append(args, "--kubeconfig", kubeconfig)...) }
	schedulable(t, kubeconfig, 4, 10)
	for _, tt := range []struct {
		name  string
		guest policytest.Guest
		args  []string
		want  string // of the error; empty for live
	}{
		{"none refused", policytest.Guest{Refuse: -1}, nil, ""},
		{"all refused", policytest.Guest{}, nil, "10 pods would find no node any more"},
		{"all refused, in a dry run", policytest.Guest{}, []string{"--dry-run"}, "10 pods would find no node any more"},
		{"all refused, as a canary", policytest.Guest{Version: "canary"}, []string{"--canary", "10"}, "10 pods would find no node any more"},
		{"all refused, of a shadow", policytest.Guest{}, []string{"--mode", "Shadow"}, ""},
		{"a trap", policytest.Guest{Refuse: -1, Traps: 1}, []string{"--mode", "Enforce"}, "it fails in 5 decisions, first: ask made: "},
		{"a trap on many nodes alone", policytest.Guest{Refuse: -1, Rows: 100}, []string{"--mode", "Enforce"}, "it fails on 5000 nodes: ask made: "},
		{"a trap, by force", policytest.Guest{Refuse: -1, Traps: 1}, []string{"--mode", "Enforce", "--force"}, ""},
	} {
		tt.guest.Name = "made"
		if tt.guest.Version == "" {
			tt.guest.Version = tt.name
		}
		out, err := run(append([]string{"policy", "push", "made", handMade(t, tt.guest)}, tt.args...)...)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: push = %v\n%s", tt.name, err, out)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "--force")):
			t.Errorf("%s: push = %v, want %q\n%s", tt.name, err, tt.want, out)
		}
	}
}

func TestAPushSaysThatAControllerDoesNotRun(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	out := mustBerth(t, "policy", "push", "copy", bundled(t, "controllers"), "--entry", "ReplicaSet", "--service-account", "default/nobody", "--kubeconfig", kubeconfig)
	if !strings.Contains(out, "does NOT run: ") || !strings.Contains(out, `cannot list resource "replicasets"`) {
		t.Errorf("a push of a controller without rights says:\n%s", out)
	}
	if out := mustBerth(t, "policy", "list", "--kubeconfig", kubeconfig); !strings.Contains(out, "NotRunning") {
		t.Errorf("the list says:\n%s", out)
	}
}
