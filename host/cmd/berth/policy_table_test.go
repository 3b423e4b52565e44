package main

import (
	"encoding/json"
	"encoding/xml"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/policytest"
)

// A module of any language has its table beside it.
func TestAModuleIsTestedByATable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "made.wasm")
	write(t, file, string(policytest.Guest{Name: "made", Version: "1", Mask: 1, Refuse: 1}.Bytes()))
	if _, err := berth(t, "policy", "test", file); err == nil || !strings.Contains(err.Error(), "name one by --table") {
		t.Errorf("without a table: %v", err)
	}
	write(t, filepath.Join(dir, "table.yaml"), "nodes: [{metadata: {name: a}}, {metadata: {name: b}}]\ncases:\n"+
		"- name: good\n  want: {a: \"\", b: version 1 says no}\n- name: bad\n  want:\n    b: \"\"\n")
	if out := mustBerth(t, "policy", "test", file, "--run", "good", "-v"); !strings.Contains(out, "ok   good") || !strings.Contains(out, "it answers 1 case as the tables say, and takes 5000 nodes") {
		t.Errorf("the good case says:\n%s", out)
	}
	out, err := berth(t, "policy", "test", file)
	if err == nil || !strings.Contains(out, `table.yaml:7: bad: of b it says "version 1 says no", want ""`) {
		t.Errorf("the bad case = %v\n%s", err, out)
	}
	out, err = berth(t, "policy", "test", file, "-o", "json")
	var all []result
	if bad := json.Unmarshal([]byte(out), &all); err == nil || bad != nil || len(all) != 2 || !all[0].Passed || all[1].Passed {
		t.Errorf("as JSON = %v, %v\n%s", err, bad, out)
	}
	out, err = berth(t, "policy", "test", file, "-o", "junit")
	var suites junitSuites
	if bad := xml.Unmarshal([]byte(out), &suites); err == nil || bad != nil || len(suites.Suites) != 1 || suites.Suites[0].Failures != 1 || suites.Suites[0].Tests != 2 {
		t.Errorf("as JUnit = %v, %v\n%s", err, bad, out)
	}
	if _, err := berth(t, "policy", "test", file, "--run", "none"); err == nil || !strings.Contains(err.Error(), "no case was asked") {
		t.Errorf("no case: %v", err)
	}
	if _, err := berth(t, "policy", "test", file, "-o", "xml"); err == nil || !strings.Contains(err.Error(), "use json or junit") {
		t.Errorf("-o xml: %v", err)
	}
	if out := mustBerth(t, "policy", "bench", file, "--nodes", "10,100"); strings.Count(out, "made ") != 2 || !strings.Contains(out, "FUEL/ROW") {
		t.Errorf("a bench says:\n%s", out)
	}
}

func TestARunAnswersOneQuestion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, pods, nodes := filepath.Join(dir, "made.wasm"), filepath.Join(dir, "pod.yaml"), filepath.Join(dir, "nodes.yaml")
	write(t, file, string(policytest.Guest{Name: "made", Version: "1", Mask: 1, Refuse: 1}.Bytes()))
	write(t, pods, pod("a"))
	write(t, nodes, "kind: NodeList\nitems: [{metadata: {name: n0}}, {metadata: {name: n1}}]\n")
	out := mustBerth(t, "policy", "run", file, "--pod", pods, "--node", nodes)
	if !strings.Contains(out, "n0     admits") || !strings.Contains(out, "n1     refuses: version 1 says no") {
		t.Errorf("run says:\n%s", out)
	}
	if out := mustBerth(t, "policy", "run", file, "--pod", pods, "--node", nodes, "-o", "jsonpath={[1].reason}"); out != "version 1 says no" {
		t.Errorf("run -o jsonpath says %q", out)
	}
	if _, err := berth(t, "policy", "run", file, "--pod", nodes, "--node", nodes); err == nil || !strings.Contains(err.Error(), "a plan is for pods") && !strings.Contains(err.Error(), "NodeList") {
		t.Errorf("nodes for a pod: %v", err)
	}
}

func TestAFailureIsToldAtTheAuthorsLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main_test.go"), "package main\n\nvar _ = []string{\n\t\"a plain pod\",\n}\n")
	var out strings.Builder
	w := &withLines{to: &out, lines: caseLines(dir)}
	_, _ = w.Write([]byte("--- FAIL: TestX (0.00s)\n    --- FAIL: TestX/a_pl"))
	_, _ = w.Write([]byte("ain_pod (0.00s)\n"))
	if want := "--- FAIL: TestX (0.00s)\n    --- FAIL: TestX/a_plain_pod (0.00s) at main_test.go:4\n"; out.String() != want {
		t.Errorf("go test's lines became %q, want %q", out.String(), want)
	}
	if err := atCase(errString(`as wasm, TestX, case "a plain pod", node a: trap`), dir); !strings.HasPrefix(err.Error(), "main_test.go:4: as wasm") {
		t.Errorf("an error about a case became %v", err)
	}
}

type errString string

func (e errString) Error() string { return string(e) }
