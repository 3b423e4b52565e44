package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// warned writes a Policy as kubectl does and returns the warnings.
func warned(t *testing.T, kubeconfig, verb, path, body string) (code int, warnings []string) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), verb, cfg.Host+policyAPI+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if verb == "PATCH" {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	warnings = res.Header.Values("Warning")
	return res.StatusCode, warnings
}

// rehearsed is warned of a dry run, once more where a busy machine found no time.
func rehearsed(t *testing.T, kubeconfig, verb, path, body string) (code int, warnings []string) {
	t.Helper()
	for range 5 {
		if code, warnings = warned(t, kubeconfig, verb, path, body); !strings.Contains(strings.Join(warnings, ""), "not rehearsed within") {
			break
		}
	}
	return code, warnings
}

func TestADryRunOfAPolicyTellsItsRehearsal(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	run := func(args ...string) string { return mustBerth(t, append(args, "--kubeconfig", kubeconfig)...) }
	schedulable(t, kubeconfig, 4, 40)
	c, err := newClient(kubeconfig, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	uploaded := func(g policytest.Guest) string {
		m, err := c.upload(t.Context(), g.Bytes(), nil, false)
		if err != nil {
			t.Fatal(err)
		}
		return m.Name
	}
	strict := uploaded(policytest.Guest{Name: "made", Version: "strict", Mask: 1, Refuse: 1})
	gate := uploaded(policytest.Guest{Name: "gated", Version: "1", Kind: "gate"})
	closed := uploaded(policytest.Guest{Name: "closed", Version: "1", BadOpen: true})
	picky := uploaded(policytest.Guest{Name: "picky", Version: "1", Refuse: -1, Schema: `{"type":"object","additionalProperties":false,"properties":{"label":{"type":"string"}}}`})
	object := func(name, module, rest string) string {
		return `{"apiVersion":"policy.berth.dev/v1alpha1","kind":"Policy","metadata":{"name":"` + name + `"},"spec":{"module":"` + module + `"` + rest + `}}`
	}
	for _, tt := range []struct {
		name, object string
		want         []string
	}{
		{"one that refuses half of the nodes", object("made", strict, ""), []string{
			"no Profile names made, so it decides nothing yet: add it to spec.predicates",
			"rehearsed in profile default: of the last decisions about 40 pods, ",
			" instead of n", ": made refuses n", ": version strict says no",
			" more; `berth policy push made --dry-run` tells more",
		}},
		{"a gate", object("gated", gate, ""), []string{"nothing to rehearse: a gate decides about no placement"}},
		{"one that refuses its config", object("closed", closed, `,"config":{"a":1}`), []string{"the policy would be refused: ", "version 1 refuses"}},
		{"a field that its schema lacks", object("picky", picky, `,"config":{"lable":"x"}`), []string{"the policy would be refused: ", "lable"}},
		{"a module that is not there", object("made", "sha256-"+strings.Repeat("0", 64), ""), []string{"is not there: the policy waits until it is uploaded"}},
		{"a module of no name", object("made", "x", ""), []string{`spec.module: module \"x\": want sha256-`}},
		{"an entry that the module lacks", object("made", strict, `,"entry":"none"`), []string{`the module has no policy \"none\"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, warnings := rehearsed(t, kubeconfig, "POST", "policies?dryRun=All", tt.object)
			all := strings.Join(warnings, "\n")
			if code != http.StatusCreated {
				t.Errorf("the dry run answers %d", code)
			}
			for _, want := range tt.want {
				if !strings.Contains(all, want) {
					t.Errorf("no warning says %q:\n%s", want, all)
				}
			}
		})
	}

	// What is live is rehearsed as it would be, and nothing of it stays.
	run("policy", "push", "live", handMade(t, policytest.Guest{Name: "live", Version: "1", Refuse: -1}))
	_, warnings := rehearsed(t, kubeconfig, "PATCH", "policies/live?dryRun=All", `{"spec":{"entry":"made","module":"`+strict+`"}}`)
	if all := strings.Join(warnings, "\n"); !strings.Contains(all, "rehearsed: of the last decisions about 40 pods") || strings.Contains(all, "no Profile names") {
		t.Errorf("a dry patch warns:\n%s", all)
	}
	if code, warnings := warned(t, kubeconfig, "PATCH", "policies/live", `{"metadata":{"labels":{"a":"b"}}}`); code != http.StatusOK || len(warnings) != 0 {
		t.Errorf("a write of its labels = %d %q", code, warnings)
	}
	var list v1alpha1.PolicyList
	if err := json.Unmarshal([]byte(run("policy", "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Name == "made" {
			t.Error("a dry run left a policy")
		}
	}
}

func TestWhoDeletesAModuleInUseIsWarned(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	mustBerth(t, "policy", "push", "made", handMade(t, policytest.Guest{Name: "made", Version: "1", Refuse: -1}), "--kubeconfig", kubeconfig)
	c, err := newClient(kubeconfig, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.policy(t.Context(), "made")
	if err != nil {
		t.Fatal(err)
	}
	code, warnings := warned(t, kubeconfig, "DELETE", "modules/"+p.Spec.Module, "")
	if all := strings.Join(warnings, "\n"); code != http.StatusOK || !strings.Contains(all, "made need this module: its bytes stay") {
		t.Errorf("deleted while in use = %d, warnings %q", code, all)
	}
	// Its bytes are still here: a Policy that names it waits for nothing.
	_, warnings = warned(t, kubeconfig, "PATCH", "policies/made", `{"spec":{"config":{"a":1}}}`)
	if all := strings.Join(warnings, "\n"); strings.Contains(all, "is not there") {
		t.Errorf("a policy whose module's bytes are here warns %q", all)
	}
	unused, err := c.upload(t.Context(), policytest.Guest{Name: "made", Version: "2"}.Bytes(), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if code, warnings := warned(t, kubeconfig, "DELETE", "modules/"+unused.Name, ""); code != http.StatusOK || len(warnings) != 0 {
		t.Errorf("deleted unused = %d, warnings %q", code, warnings)
	}
}
