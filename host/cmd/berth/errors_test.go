package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Each mistake is answered by what is wrong and what to do.
func TestErrorsTeach(t *testing.T) {
	t.Parallel()
	empty, typo, kubeconfig := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "kubeconfig")
	write(t, filepath.Join(typo, ownFile), "kind: Policy\nmetadata: {name: x}\nspec: {entri: X}\n")
	write(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\n")
	for _, tt := range []struct {
		name, args string
		want       []string
	}{
		{"a flag that is none", "policy new a --knid gate", []string{"unknown flag: --knid", "see `berth policy new --help`"}},
		{"too few arguments", "policy rollback", []string{"accepts 1 arg(s), received 0", "use `berth policy rollback NAME [flags]`"}},
		{"too many", "policy push a b c", []string{"use `berth policy push [NAME] [DIR|FILE.wasm] [flags]`"}},
		{"a command that is none", "policy pusch", []string{`unknown command "pusch" for "berth policy"`, "did you mean push?"}},
		{"one like no other", "policy frobnicate", []string{"see `berth policy --help`"}},
		{"a kind that is none", "policy new a --kind gat", []string{"want one of predicate, priority, gate, controller"}},
		{"no host", "policy list --kubeconfig " + kubeconfig, []string{"no host answers at https://127.0.0.1:1 (connection refused)", "`berth up`", "--kubeconfig"}},
		{"a folder without a policy", "policy build " + empty, []string{"belongs to no Go module: `berth policy new` makes a folder that does"}},
		{"tests of none", "policy test " + empty, []string{"`berth policy new`"}},
		{"a file that is not there", "policy inspect ./none.wasm", []string{"./none.wasm is neither a file nor a folder"}},
		{"a typo in policy.yaml", "policy push --kubeconfig " + kubeconfig + " " + typo, []string{`policy.yaml: unknown field "entri"`}},
		{"a mode that is none", "policy push --kubeconfig " + kubeconfig + " --mode On x " + empty, []string{"use Enforce, Shadow or Off"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := berth(t, strings.Fields(tt.args)...)
			if err == nil {
				t.Fatalf("berth %s says %s", tt.args, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("berth %s: %v\nwant %q", tt.args, err, want)
				}
			}
		})
	}
}

// A push that cannot go live changes nothing.
func TestAPushThatCannotGoLiveChangesNothing(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	guest := policytest.Guest{Name: "made", Version: "1", Refuse: -1, Schema: `{"type":"object","additionalProperties":false}`}
	mustBerth(t, "policy", "push", "made", handMade(t, guest), "--kubeconfig", kubeconfig)
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, "lable: x\n")
	gate := policytest.Guest{Name: "gated", Version: "1", Kind: "gate"}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a config that its schema refuses": {[]string{handMade(t, guest), "--config", config}, "nothing has changed: policy made: module refused: the config is not what the policy's schema wants"},
		"a module of another kind":         {[]string{handMade(t, gate)}, "policy made is a predicate, and gated in this module is a gate: push it under another name"},
		"a mode that is none":              {[]string{handMade(t, gate), "--mode", "none"}, "use Enforce, Shadow or Off"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := berth(t, append([]string{"policy", "push", "made", "--kubeconfig", kubeconfig}, tt.args...)...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("push = %v, want %q", err, tt.want)
			}
		})
	}
	c, err := newClient(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.policy(t.Context(), "made")
	if err != nil || p.Generation != 1 || p.Status.Phase != "Live" || p.Spec.Mode != "" && p.Spec.Mode != v1alpha1.Enforce {
		t.Errorf("the policy is %+v, %v", p, err)
	}
	if out := mustBerth(t, "policy", "push", "HostName", handMade(t, policytest.Guest{Name: "any", Version: "1", Refuse: -1}), "--kubeconfig", kubeconfig); !strings.Contains(out, "HostName is a built-in one") {
		t.Errorf("a push in the place of a built-in policy says:\n%s", out)
	}
}
