package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// What a reader can hold in mind: host/policy had a type of 79 methods in 16
// files once, and nobody could say what state it was in.
const (
	maxMethods    = 30
	maxFiles      = 5
	maxComplexity = 15
)

var counted = []string{"host/policy", "host/policy/rollout", "host/policy/trial", "host/policy/sandbox", "host/policy/module", "host/schedule/binding", "nodeagent/dns", "nodeagent/pod"}

// larger are types that may be larger than that: methods, files, and why.
var larger = map[string]struct {
	methods, files int
	because        string
}{
	"host/policy/sandbox.Sandbox": {40, 6, "all its methods are steps of one goroutine's talk with one instance: to follow, to ask in pieces, to fail, to be built anew"},
	"nodeagent/pod.Record":        {70, 6, "it is all that is known of one pod, and its methods are the pure rules of what that means and what comes next"},
}

func TestTypesAndFunctionsStaySmall(t *testing.T) {
	t.Parallel()
	for _, folder := range counted {
		files, err := filepath.Glob("../../" + folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		methods, spread := map[string]int{}, map[string]int{}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			here := map[string]bool{}
			for _, f := range functions(t, file) {
				if n := complexity(f); n > maxComplexity {
					t.Errorf("%s: %s has a cyclomatic complexity of %d, at most %d are wanted", file, f.Name.Name, n, maxComplexity)
				}
				if of := receiver(f); of != "" {
					methods[of]++
					here[of] = true
				}
			}
			for of := range here {
				spread[of]++
			}
		}
		for of, n := range methods {
			most, wide, but := maxMethods, maxFiles, larger[folder+"."+of]
			if but.because != "" {
				most, wide = but.methods, but.files
			}
			if n > most || spread[of] > wide {
				t.Errorf("%s: %s has %d methods in %d files, at most %d in %d are wanted", folder, of, n, spread[of], most, wide)
			}
		}
	}
}

func functions(t *testing.T, file string) (all []*ast.FuncDecl) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			all = append(all, f)
		}
	}
	return all
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// complexity is McCabe's, as gocyclo counts it.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
