package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/scaffold"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	tables "github.com/berth-dev/berth/sdk/policytest"
)

// A new policy is tested and pushed as it is.
func TestANewPolicyIsTestedAndPushed(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GOPROXY", "off")
	kubeconfig := runHost(t)
	for _, kind := range scaffold.Kinds {
		fitsTheScreen(t, "policy", "new", "a-"+kind, "--kind", kind)
	}
	if out := mustBerth(t, "policy", "new", "my-team", "--kind", "predicate"); !strings.Contains(out, "berth policy push") {
		t.Errorf("new does not say what comes next: %s", out)
	}
	if out := mustBerth(t, "policy", "test", "my-team", "--go"); !strings.Contains(out, "it answers 1 table as it does natively") {
		t.Errorf("test says %s", out)
	}
	if out := fitsTheScreen(t, "policy", "push", "my-team", "my-team", "--go", "--kubeconfig", kubeconfig); !strings.Contains(out, "predicate my-team is live") {
		t.Errorf("push says %s", out)
	}
	if out := mustBerth(t, "policy", "push", "my-team", "my-team", "--go", "--mode", "Off", "--kubeconfig", kubeconfig); !strings.Contains(out, "which is live already") || !strings.Contains(out, "predicate my-team is off, and asked about nothing") {
		t.Errorf("push --mode Off says %s", out)
	}
	mustBerth(t, "policy", "push", "my-team", "my-team", "--go", "--mode", "Enforce", "--kubeconfig", kubeconfig)
	applyOwn(t, kubeconfig, filepath.Join("my-team", ownFile))
	if out := mustBerth(t, "policy", "remove", "my-team", "--kubeconfig", kubeconfig); !strings.Contains(out, "profile default goes on without my-team\npredicate my-team is removed") {
		t.Errorf("remove says %s", out)
	}
	c, err := newClient(kubeconfig, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.join(t.Context(), "default", "ghost", "predicate", 1); err != nil {
		t.Fatal(err)
	}
	if out := mustBerth(t, "policy", "remove", "ghost", "--kubeconfig", kubeconfig); out != "profile default goes on without ghost\n" {
		t.Errorf("remove of a name that was left says %s", out)
	}
	for command, want := range map[string]string{
		"remove ghost":              "there is no policy ghost",
		"remove my-team":            "there is no policy my-team",
		"remove PodFitsResources":   "comes with the host",
		"push No_name my-team --go": `"No_name" cannot name a policy`,
		"push ../PodFits my-team":   `"../PodFits" cannot name a policy`,
	} {
		if out, err := berth(t, append([]string{"policy", "--kubeconfig", kubeconfig}, strings.Fields(command)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v, want %q\n%s", command, err, want, out)
		}
	}
	breakTest(t, filepath.Join("my-team", "main_test.go"))
	if out, err := berth(t, "policy", "test", "my-team", "--go"); err == nil {
		t.Errorf("test of a policy whose test fails says %s", out)
	}
}

// What a build prints for kubectl makes a policy live.
func TestPrintedObjectsGoLive(t *testing.T) {
	t.Parallel()
	c, err := newClient(runHost(t), "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	const dir = "../../../examples/wat-predicate"
	var out bytes.Buffer
	if err := writeObjects(&out, dir, buildForeign(t, "wat-predicate")); err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(strings.TrimPrefix(out.String(), "---\n"), "---\n") {
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		path := policyAPI + map[string]string{"Module": "modules/", "Policy": "policies/"}[o.Kind] + o.Name
		if err := c.send(t.Context(), "PATCH", path+"?fieldManager=test&force=true", "application/apply-patch+yaml", []byte(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the policy is live", func() bool {
		p, err := c.policy(t.Context(), "headroom")
		return err == nil && p.Status.Phase == "Live"
	})
	if err := writeObjects(&out, dir, make([]byte, maxInline+1)); err == nil || !strings.Contains(err.Error(), "an object holds 2288 KB at most") {
		t.Errorf("what no object can hold is printed: %v", err)
	}
}

// applyOwn changes a policy's settings by its own YAML, as kubectl does.
func applyOwn(t *testing.T, kubeconfig, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := yaml.YAMLToJSON(bytes.ReplaceAll(data, []byte("label: example.test/my-team"), []byte("label: team")))
	if err != nil {
		t.Fatal(err)
	}
	c, err := newClient(kubeconfig, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	p := new(v1alpha1.Policy)
	if err := c.send(t.Context(), "PATCH", policyAPI+"policies/my-team", "application/merge-patch+json", patch, p); err != nil {
		t.Fatal(err)
	}
	if p, err = c.settled(t.Context(), p); err != nil || p.Status.Phase != "Live" || !bytes.Contains(p.Spec.Config.Raw, []byte(`"team"`)) {
		t.Errorf("after its YAML was applied my-team is %+v, %v", p, err)
	}
}

func breakTest(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(string(data), `"kept": "node is kept for other pods"`, `"kept": ""`, 1))
}

func TestATableIsTriedOnManyNodes(t *testing.T) {
	t.Parallel()
	e := openEngine(t)
	for name, tt := range map[string]struct {
		guest policytest.Guest
		want  string
	}{
		"one that takes them": {policytest.Guest{Refuse: -1}, ""},
		"one that traps":      {policytest.Guest{Refuse: -1, Rows: 100}, "berth_filter: Trap"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.guest.Name = "made"
			m, err := e.Load(t.Context(), tt.guest.Bytes(), vettedBy(v1alpha1.PolicyLimits{}))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			table := &tables.Recorded{Table: tables.Table{Nodes: []tables.Node{{Name: "n"}}, Cases: []tables.Case{{Name: "c"}}}}
			err = tryRows(t.Context(), m, table, most(v1alpha1.PolicyLimits{}))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("tryRows = %v, want %q", err, tt.want)
			}
		})
	}
}

func openEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.New(t.Context(), engine.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}
