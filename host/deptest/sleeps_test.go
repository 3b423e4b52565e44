package deptest

import (
	"go/ast"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// awake are the folders whose tests do not sleep: what they wait for is an event, or
// is looked for by polltest. In a bubble of testing/synctest a sleep takes no time.
var awake = []string{"abi", "sdk", "policies-wasm", "host", "examples", "nodeagent"}

func TestNoTestSleeps(t *testing.T) {
	t.Parallel()
	for _, top := range awake {
		err := filepath.WalkDir("../../"+top, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, "_test.go") {
				return err
			}
			if n := sleeps(parse(t, file)); n > 0 {
				t.Errorf("%s sleeps in %d places: wait for an event, look by polltest, or have the test in a bubble of testing/synctest", file, n)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sleeps counts calls of time.Sleep outside of files that make bubbles.
func sleeps(file *ast.File) (n int) {
	for _, i := range file.Imports {
		if i.Path.Value == `"testing/synctest"` {
			return 0
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if of, ok := node.(*ast.SelectorExpr); ok && of.Sel.Name == "Sleep" {
			if pkg, ok := of.X.(*ast.Ident); ok && pkg.Name == "time" {
				n++
			}
		}
		return true
	})
	return n
}
