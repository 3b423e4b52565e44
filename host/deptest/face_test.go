package deptest

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// maxFace is how many lines `go doc ./sdk` may print: what a beginner has to look
// through, on one screen. All else that the SDK has is in packages below it.
const maxFace = 60

func TestTheSDKsFaceFitsAScreen(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../../sdk/*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Name.Name == "sdk" && !strings.HasSuffix(name, "_test.go") {
			files = append(files, file)
		}
	}
	p, err := doc.NewFromFiles(fset, files, module+"/sdk")
	if err != nil {
		t.Fatal(err)
	}
	declared := len(p.Consts) + len(p.Vars) + len(p.Funcs) + len(p.Types)
	for _, of := range p.Types {
		declared += len(of.Consts) + len(of.Vars) + len(of.Funcs)
	}
	const first = 3 // the package clause and the lines about the text
	if n := first + strings.Count(string(p.Text(p.Doc)), "\n") + declared; n > maxFace {
		t.Errorf("go doc ./sdk prints %d lines, at most %d are wanted: move what a first policy does not need into a package below it", n, maxFace)
	}
}
