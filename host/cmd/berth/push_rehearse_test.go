package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
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
		{"all refused, in a dry run by force", policytest.Guest{}, []string{"--dry-run", "--force"}, "10 pods would find no node any more"},
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

func TestFlagsOfAPushThatDoNotGoTogether(t *testing.T) {
	t.Parallel()
	set := func(flags ...string) func(string) bool {
		return func(flag string) bool { return slices.Contains(flags, flag) }
	}
	for name, tt := range map[string]struct {
		flags pushFlags
		want  string
	}{
		"a dry run of nothing": {pushFlags{dryRun: true}, "--dry-run makes decisions again, and --rehearse 0 none"},
		"a push of nothing":    {pushFlags{}, ""},
	} {
		err := tt.flags.check(set())
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: check = %v, want %q", name, err, tt.want)
		}
	}
}

// A canary is of the entry that its policy runs: another of the same module, though
// named and rehearsed, would not be what is tried.
func TestACanaryOfAnotherEntryIsRefused(t *testing.T) {
	t.Parallel()
	was := &v1alpha1.Policy{Spec: v1alpha1.PolicySpec{Entry: "A"}, Status: v1alpha1.PolicyStatus{Kind: "predicate"}}
	was.Name = "made"
	for entry, want := range map[string]string{"A": "", "B": "a canary runs the entry of its policy, which is A, and this is B"} {
		f := pushFlags{canary: 10}
		err := f.fits(io.Discard, was, "made", v1alpha1.ModuleEntry{Name: entry, Kind: "predicate"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a canary of %s = %v, want %q", entry, err, want)
		}
	}
	if err := new(pushFlags).fits(io.Discard, was, "made", v1alpha1.ModuleEntry{Name: "B", Kind: "predicate"}); err != nil {
		t.Errorf("a push of another entry = %v", err)
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
