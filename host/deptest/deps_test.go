package deptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string // of the product, not of tests
	Deps       []string
}

func TestImportRules(t *testing.T) {
	t.Parallel()
	for _, problem := range check(list(t), rules, owned, tops) {
		t.Error(problem)
	}
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", module+"/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v: %s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("decode what go list printed: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

// check returns a sentence for each import that breaks a rule.
func check(pkgs []pkg, rules []rule, owned []ownership, tops []string) []string {
	standard := map[string]bool{}
	for _, p := range pkgs {
		standard[p.ImportPath] = p.Standard
	}
	var problems []string
	for _, p := range pkgs {
		folder, ours := within(p.ImportPath)
		if !ours {
			continue
		}
		if !under(folder, tops) && folder != "" {
			problems = append(problems, fmt.Sprintf("%s lies outside the top-level folders %v", folder, tops))
		}
		for _, r := range rules {
			if under(folder, []string{r.folder}) && !under(folder, r.but) {
				problems = append(problems, r.broken(folder, p, standard)...)
			}
		}
		for _, o := range owned {
			problems = append(problems, o.broken(folder, p)...)
		}
	}
	return problems
}

func (r rule) broken(folder string, p pkg, standard map[string]bool) []string {
	var problems []string
	for _, path := range p.Imports {
		target, ours := within(path)
		switch {
		case ours && r.may != nil && !under(target, append([]string{r.folder}, r.may...)):
			problems = append(problems, fmt.Sprintf("%s imports %s: %s may import %v of this module, because %s", folder, target, r.folder, r.may, r.because))
		case !ours && r.only != nil && !standard[path] && !under(path, r.only):
			problems = append(problems, fmt.Sprintf("%s imports %s: beside the standard library %s may import %v, because %s", folder, path, r.folder, r.only, r.because))
		}
	}
	for _, path := range p.Deps {
		target, ours := within(path)
		if under(target, r.never) && !(ours && under(target, []string{r.folder})) {
			problems = append(problems, fmt.Sprintf("%s reaches %s, which %s must not, because %s", folder, target, r.folder, r.because))
		}
	}
	return problems
}

func (o ownership) broken(folder string, p pkg) []string {
	var problems []string
	for _, path := range p.Imports {
		target, _ := within(path)
		if under(target, []string{o.library}) && !under(folder, o.by) {
			problems = append(problems, fmt.Sprintf("%s imports %s, which belongs to %v alone, because %s", folder, target, o.by, o.because))
		}
	}
	return problems
}

// within turns an import path into a folder of this module, if it is one, and
// leaves others as they are.
func within(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// under tells whether path is one of folders or below one.
func under(path string, folders []string) bool {
	for _, f := range folders {
		if path == f || strings.HasPrefix(path, f+"/") {
			return true
		}
	}
	return false
}
