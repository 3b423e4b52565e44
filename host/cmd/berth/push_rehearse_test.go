package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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
		"a dry run of nothing": {pushFlags{weight: 1, dryRun: true}, "--dry-run makes decisions again, and --rehearse 0 none"},
		"a push of nothing":    {pushFlags{weight: 1}, ""},
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

// A push that stopped half-way is made whole by the next one, which else would call
// live what no profile names.
func TestAPolicyThatIsInNoProfileJoinsOne(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	push := func(args ...string) (string, error) {
		return berth(t, append([]string{"policy", "push", "made", handMade(t, policytest.Guest{Name: "made", Version: "1", Refuse: -1}), "--kubeconfig", kubeconfig}, args...)...)
	}
	c, err := newClient(kubeconfig, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	joined := func() bool {
		p := new(v1alpha1.Profile)
		if err := c.get(t.Context(), policyAPI+"profiles/default", p); err != nil {
			t.Fatal(err)
		}
		return slices.Contains(p.Names(), "made")
	}
	for range 2 {
		if out, err := push("--profile", "none", "--rehearse", "0"); err == nil || !strings.Contains(err.Error(), "policy made is there, but not in profile none, and decides nothing") {
			t.Errorf("a push that cannot join = %v\n%s", err, out)
		}
	}
	if out, err := push("--profile", ""); err != nil || joined() {
		t.Errorf("a push that shall join nothing = %v, joins: %t\n%s", err, joined(), out)
	}
	if out, err := push(); err != nil || !joined() {
		t.Errorf("a push that may join = %v, joins: %t\n%s", err, joined(), out)
	}
}

// Without a rehearsal nobody knows what it would do: that is a reason to hold it.
func TestARehearsalThatCannotBeMadeHoldsAPush(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too many rehearsals at a time", http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	c, err := newClient(kubeconfigOf(t, server.URL), "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		flags      pushFlags
		says, want string // what is printed, and the error; empty for none
	}{
		"a policy that shall decide": {pushFlags{rehearse: 5}, "", "not live, nothing has changed: it could not be rehearsed: too many rehearsals"},
		"by force":                   {pushFlags{rehearse: 5, force: true}, "it could not be rehearsed: too many rehearsals at a time: goes live nevertheless, by --force", ""},
		"a dry run by force":         {pushFlags{rehearse: 5, force: true, dryRun: true}, "", "rehearse: too many rehearsals"},
		"a shadow":                   {pushFlags{rehearse: 5, mode: "Shadow"}, "not rehearsed: too many rehearsals", ""},
		"without a rehearsal":        {pushFlags{}, "", ""},
	} {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetContext(t.Context())
		err := tt.flags.tryOut(cmd, c, "made", nil, &v1alpha1.Module{}, v1alpha1.ModuleEntry{Name: "made", Kind: "predicate"}, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: %v, and it says %q; want %q, and %q", name, err, out.String(), tt.want, tt.says)
		}
	}
}

func TestWhatAHostWarnsOfIsShown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "spec.old is deprecated"`)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	if out := mustBerth(t, "policy", "list", "--kubeconfig", kubeconfigOf(t, server.URL)); !strings.Contains(out, "Warning: spec.old is deprecated\n") {
		t.Errorf("list says:\n%s", out)
	}
}
