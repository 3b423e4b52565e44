package walk_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/policytest"
)

// testKubectlAlone brings a policy in by nothing but kubectl: the module
// inline, the Policy, and its place in a profile.
func (c *cluster) testKubectlAlone(t *testing.T) {
	wasm := policytest.Guest{Name: "kube-only", Version: "1", Refuse: -1, Schema: `{"type":"object","additionalProperties":false}`}.Bytes()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	apply := func(verb, yaml string) string {
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		return c.must(t, c.kubectl, verb, "-f", file, "-o", "name")
	}
	module := strings.TrimSpace(apply("create", "apiVersion: policy.berth.dev/v1alpha1\nkind: Module\nmetadata: {generateName: m-}\nspec: {wasm: "+
		base64.StdEncoding.EncodeToString(wasm)+"}\n"))
	_, name, _ := strings.Cut(module, "/")
	if !strings.HasPrefix(name, "sha256-") || strings.Contains(c.must(t, c.kubectl, "get", "module", name, "-o", "yaml"), "wasm:") {
		t.Fatalf("the module is called %q, and still has its bytes inline", name)
	}
	// A file of one's own, applied again and again, as a robot does.
	own := "apiVersion: policy.berth.dev/v1alpha1\nkind: Module\nmetadata: {name: " + name + "}\nspec: {wasm: " + base64.StdEncoding.EncodeToString(wasm) + "}\n"
	for range 2 {
		apply("apply", own)
	}
	apply("replace", own)
	c.must(t, c.kubectl, "delete", "module", name)
	for range 2 {
		if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		c.must(t, c.kubectl, "apply", "--server-side", "-f", file)
	}
	object := func(config string) string {
		return "apiVersion: policy.berth.dev/v1alpha1\nkind: Policy\nmetadata: {name: kube-only}\nspec: {module: " + name + ", config: " + config + "}\n"
	}
	policy := func(config string) { apply("apply", object(config)) }
	dryRun := func(config, want string) {
		if err := os.WriteFile(file, []byte(object(config)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, said, err := c.try(c.kubectl, "apply", "--dry-run=server", "-f", file); err != nil || !strings.Contains(said, "Warning: "+want) {
			t.Errorf("a dry run on the server says %q, %v; want the warning %q", said, err, want)
		}
	}
	policy("{}")
	c.must(t, c.kubectl, "wait", "--for=condition=Live", "policy/kube-only", "--timeout=60s")
	c.must(t, c.kubectl, "patch", "profile", "default", "--type=json", "-p", `[{"op":"add","path":"/spec/predicates/-","value":{"name":"kube-only"}}]`)
	c.must(t, c.kubectl, "wait", "--for=condition=Live", "profile/default")
	dryRun("{wrong: 1}", "the policy would be refused: ")
	policy("{wrong: 1}")
	c.must(t, c.kubectl, "wait", "--for=condition=Live=false", "policy/kube-only", "--timeout=60s")
	if why := c.must(t, c.kubectl, "get", "policy", "kube-only", "-o", "jsonpath={.status.phase}: {.status.message}"); !strings.HasPrefix(why, "Refused: ") || !strings.Contains(why, "spec.config.wrong") {
		t.Errorf("a config that the schema refuses: %s", why)
	}
	c.submit(t, smallPod("by-kubectl", nil))
	c.awaitPod(t, "by-kubectl", "runs", isRunning)
	dryRun("{}", "rehearsed: of the last decisions about ")
	r := c.report(t, "by-kubectl")
	for i := range r.Predicates {
		if r.Predicates[i].Name == "kube-only" {
			return
		}
	}
	t.Errorf("the policy takes no part in decisions: %+v", r.Predicates)
}
