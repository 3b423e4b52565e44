package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A new policy is tested and pushed as it is.
func TestANewPolicyIsTestedAndPushed(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GOPROXY", "off")
	kubeconfig := runHost(t)
	if out := mustBerth(t, "policy", "new", "my-team", "--kind", "predicate"); !strings.Contains(out, "berth policy push") {
		t.Errorf("new does not say what comes next: %s", out)
	}
	if out := mustBerth(t, "policy", "test", "my-team", "--go"); !strings.Contains(out, "it answers 1 table as it does natively") {
		t.Errorf("test says %s", out)
	}
	if out := mustBerth(t, "policy", "push", "my-team", "my-team", "--go", "--kubeconfig", kubeconfig); !strings.Contains(out, "predicate my-team is live") {
		t.Errorf("push says %s", out)
	}
	breakTest(t, filepath.Join("my-team", "main_test.go"))
	if out, err := berth(t, "policy", "test", "my-team", "--go"); err == nil {
		t.Errorf("test of a policy whose test fails says %s", out)
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
