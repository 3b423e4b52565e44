package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
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

// counted are the folders in which functions and types stay small. Tests' own
// functions are not counted, since each thing that a test looks at is a branch of
// it; what helps them is.
var counted = []string{"abi", "sdk", "policies-wasm", "host", "examples", ".ci/tools", "nodeagent"}

// excuse is what the doc of a larger type says, before it says why.
const excuse = "is large because"

// larger are types that are so well known by that already.
var larger = map[string]string{
	"host/schedule/snapshot.Cluster": "rows, placed pods, objects, the log and its readers are one state, which only changes as a whole",
	"nodeagent/pod.Record":           "it is all that is known of one pod, and its methods are the pure rules of what that means and what comes next",
}

// winding are functions that may have more ways through, and why.
var winding = map[string]struct {
	complexity int
	because    string
}{
	"host/console.session.opens": {16, "it is a list: one line a request that the pages make"},
	"nodeagent/isolation.steps":  {20, "it is a table of test cases, whose conditions are counted as ways through it"},
	"host/console.workloadOf":    {16, "it is a list: one case a kind, each with where its status keeps the same figures"},
}

func TestTypesAndFunctionsStaySmall(t *testing.T) {
	t.Parallel()
	types := map[string]*size{}
	for _, top := range counted {
		err := filepath.WalkDir("../../"+top, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") {
				return err
			}
			count(t, file, types)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for of, n := range types {
		large := n.methods > maxMethods || n.files > maxFiles
		if large && !n.excused && larger[of] == "" {
			t.Errorf("%s has %d methods in %d files, at most %d in %d are wanted, or a doc that says that it %s …", of, n.methods, n.files, maxMethods, maxFiles, excuse)
		}
		if !large && n.excused {
			t.Errorf("%s is no longer large: its doc need not say why", of)
		}
	}
	if len(winding) > 5 {
		t.Errorf("%d functions are excused, at most 5 are wanted", len(winding))
	}
}

// story is the name of a test, or of a part of one.
var story = regexp.MustCompile(`^([Tt]est|Fuzz|Benchmark|Example)`)

// size is how large a type is, the file it was last seen in, and whether its doc
// says why.
type size struct {
	methods, files int
	last           string
	excused        bool
}

func sizeOf(types map[string]*size, name string) *size {
	if types[name] == nil {
		types[name] = &size{}
	}
	return types[name]
}

func count(t *testing.T, file string, types map[string]*size) {
	t.Helper()
	folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(file, "../../")))
	parsed := parse(t, file)
	if ast.IsGenerated(parsed) {
		return
	}
	for _, d := range parsed.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			spec := spec.(*ast.TypeSpec)
			doc := strings.Join(strings.Fields(group.Doc.Text()+" "+spec.Doc.Text()), " ")
			sizeOf(types, folder+"."+spec.Name.Name).excused = strings.Contains(doc, excuse)
		}
	}
	for _, f := range functions(parsed) {
		name := folder + "." + f.Name.Name
		of := receiver(f)
		test := strings.HasSuffix(file, "_test.go")
		if of != "" {
			name = folder + "." + of + "." + f.Name.Name
		}
		if of != "" && !test {
			n := sizeOf(types, folder+"."+of)
			n.methods++
			if n.last != file {
				n.files, n.last = n.files+1, file
			}
		}
		if test && story.MatchString(f.Name.Name) {
			continue
		}
		if n, most := complexity(f), max(maxComplexity, winding[name].complexity); n > most {
			t.Errorf("%s: %s has a cyclomatic complexity of %d, at most %d are wanted", file, name, n, most)
		}
	}
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func functions(file *ast.File) (all []*ast.FuncDecl) {
	for _, d := range file.Decls {
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
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.IndexExpr:
		if name, ok := of.X.(*ast.Ident); ok {
			return name.Name
		}
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
