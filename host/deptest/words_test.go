package deptest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
