package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/sdk/policytest"
)

const cookbook = "../../../examples/cookbook/"

// Each policy of the cookbook answers its tables as wasm as it does natively,
// and takes the settings of its YAML.
func TestTheCookbookHolds(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob(cookbook + "*")
	if err != nil || len(dirs) < 10 {
		t.Fatalf("the cookbook has %d policies, %v", len(dirs), err)
	}
	tables := recordTables(t, cookbook+"...")
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			p := readPolicy(t, filepath.Join(dir, "policy.yaml"))
			wasm, err := new(source).module(t.Context(), t.Output(), dir)
			if err != nil {
				t.Fatal(err)
			}
			opens(t, wasm, p)
			answers(t, wasm, tables, p.Spec.Entry)
			switch p.Spec.Entry {
			case "SpotAvoidance":
				benches(t, dir, "SpotAvoidance", "PodFitsResources", "300")
			case "HTTPGate":
				benches(t, dir, "HTTPGate", "MinReadySeconds")
			}
		})
	}
}

// benches measures a policy whose module was just built.
func benches(t *testing.T, dir string, wants ...string) {
	t.Helper()
	out := mustBerth(t, "policy", "bench", dir, "--nodes", "100,300")
	for _, want := range append(wants, "unchanged since it was built", "NS/ROW") {
		if !strings.Contains(out, want) {
			t.Errorf("bench does not show %q:\n%s", want, out)
		}
	}
}

// recordTables runs the tables of packages natively and returns the recordings.
func recordTables(t *testing.T, packages string) (files []string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", packages)
	cmd.Env = append(os.Environ(), policytest.Folder+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test %s: %v\n%s", packages, err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// answers asks the module what the tables of one policy say.
func answers(t *testing.T, wasm []byte, tables []string, policy string) {
	t.Helper()
	var own []string
	for _, file := range tables {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var calls []policytest.Call
		if err := json.Unmarshal(data, &calls); err != nil {
			t.Fatal(err)
		}
		if len(calls) > 1 && bytes.Contains(calls[0].In, []byte(`"policy":"`+policy+`"`)) {
			own = append(own, file)
		}
	}
	if len(own) == 0 {
		t.Fatalf("%s has no table", policy)
	}
	if _, err := tryAll(t.Context(), wasm, v1alpha1.PolicyLimits{}, own, nil); err != nil {
		t.Error(err)
	}
}

func readPolicy(t *testing.T, file string) *v1alpha1.Policy {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := new(v1alpha1.Policy)
	if err := yaml.UnmarshalStrict(data, p); err != nil {
		t.Fatal(err)
	}
	if p.Kind != "Policy" || p.APIVersion != v1alpha1.GroupVersion.String() || p.Name != filepath.Base(filepath.Dir(file)) {
		t.Errorf("%s is %s %s %s", file, p.APIVersion, p.Kind, p.Name)
	}
	return p
}

// opens has a guest take the settings of p.
func opens(t *testing.T, wasm []byte, p *v1alpha1.Policy) {
	t.Helper()
	i := openGuest(t.Context(), t, wasm)
	settings := abi.OpenConfig{Policy: p.Spec.Entry}
	if p.Spec.Config != nil {
		settings.Config = p.Spec.Config.Raw
	}
	config, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	r, err := i.Call(engine.FuncOpen, config, engine.OpenBudget)
	if err != nil || r.Status != abi.StatusOK {
		t.Errorf("berth_open with %s = %d, %v", config, r.Status, err)
	}
}

// openGuest makes an instance that lives as long as the test.
func openGuest(ctx context.Context, t *testing.T, wasm []byte) *engine.Instance {
	t.Helper()
	e, err := engine.New(ctx, engine.Config{CacheDir: enginetest.Cache()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	m, err := e.Load(ctx, wasm, vet.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	i, err := m.Open(ctx, engine.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	return i
}
