package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
)

// Each policy of the cookbook passes its own tables, natively and as wasm, and
// takes the settings of its YAML.
func TestTheCookbookHolds(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob("../../../examples/cookbook/*")
	if err != nil || len(dirs) < 8 {
		t.Fatalf("the cookbook has %d policies, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			// Their own tables run with all tests; one of them runs as wasm too.
			if filepath.Base(dir) == "spot-avoidance" {
				mustBerth(t, "policy", "test", dir)
			}
			file := filepath.Join(t.TempDir(), "policy.wasm")
			mustBerth(t, "policy", "build", dir, "-o", file)
			opens(t, file, readPolicy(t, filepath.Join(dir, "policy.yaml")))
		})
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
func opens(t *testing.T, file string, p *v1alpha1.Policy) {
	t.Helper()
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(t.Context(), engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m, err := e.Load(t.Context(), wasm, vet.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	i, err := m.Open(t.Context(), engine.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	config, err := json.Marshal(abi.OpenConfig{Policy: p.Spec.Entry, Config: p.Spec.Config.Raw})
	if err != nil {
		t.Fatal(err)
	}
	r, err := i.Call(engine.FuncOpen, config, engine.OpenBudget)
	if err != nil || r.Status != abi.StatusOK {
		t.Errorf("berth_open with %s = %d, %v", config, r.Status, err)
	}
}
