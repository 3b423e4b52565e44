package deptest

import (
	"bytes"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dialect are words that stood for what the field has a word for. They may not
// come back, neither in names nor in texts.
var dialect = map[string]string{
	"twin": "verifier", "departures": "retiring", "seeOff": "drain", "recipes": "provenance",
	"errCrowded": "memory quota", "furnish": "bootstrap, create, prepare", "furnished": "set up",
	"foretold": "warnings", "spareProcessor": "tuneGOMAXPROCS", "askAgainNanos": "requeueAfterNanos",
	"AskAgain": "RequeueAfter", "skipsBy": "skipDependsOn", "SkipsBy": "SkipDependsOn",
	"Impure": "divergence", "patience": "timeout, deadline", "shelf": "cache",
}

// inventions returns the words of the dialect that a text uses, with their lines.
func inventions(text []byte) (found []string) {
	var all []string
	for word := range dialect {
		all = append(all, word)
	}
	words := regexp.MustCompile(`\b(` + strings.Join(all, "|") + `)\b`)
	for i, line := range bytes.Split(text, []byte("\n")) {
		for _, word := range words.FindAllString(string(line), -1) {
			found = append(found, fmt.Sprintf("line %d: say %s, not %s: %s", i+1, dialect[word], word, bytes.TrimSpace(line)))
		}
	}
	return found
}

func TestTheFieldsWordsAreUsed(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "*.go", "*.md", "*.tmpl", "*.sh", "*.yaml", "*.yml").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(out))
	if len(files) < 500 {
		t.Fatalf("only %d files are looked at", len(files))
	}
	for _, file := range files {
		if file == "host/deptest/words_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range inventions(text) {
			t.Errorf("%s: %s", file, line)
		}
	}
}

func TestInventionsAreFound(t *testing.T) {
	t.Parallel()
	if got := inventions([]byte("a twin\nand askAgainNanos\ntwins")); len(got) != 2 {
		t.Errorf("found %q, want two", got)
	}
}

// participles say what was done to a thing, and not what it is.
var participles = []string{"told", "asked", "kept", "awaited", "watched", "given", "seen"}

// named are types that may have such a name.
var named = map[string]string{
	"host/policy/engine.given": "it is what a compile child is given, beside what it gives back",
	"host/policy/sandbox.told": "its package calls it by what a guest was told, as the contract does",
	"host/cmd/bench.seen":      "it is what a run has seen, and nothing else",
}

func TestTypesAreNouns(t *testing.T) {
	t.Parallel()
	for _, top := range []string{"abi", "sdk", "policies-wasm", "host", "examples"} {
		err := filepath.WalkDir("../../"+top, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") {
				return err
			}
			folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(file, "../../")))
			ast.Inspect(parse(t, file), func(node ast.Node) bool {
				if of, ok := node.(*ast.TypeSpec); ok && slices.Contains(participles, of.Name.Name) && named[folder+"."+of.Name.Name] == "" {
					t.Errorf("%s: type %s is no noun", file, of.Name.Name)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
