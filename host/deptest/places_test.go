package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureNamesWhatExists reads the table "Where is …" of ARCHITECTURE.md:
// each file that it names exists, and one of those in its row declares each
// function that the row names.
func TestArchitectureNamesWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Where is …\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no section that tells where things are")
	}
	path, quoted := regexp.MustCompile(`\b(?:host|nodeagent|sdk|abi)/[\w/]+\.go\b`), regexp.MustCompile("`([\\w.]+)`")
	rows := 0
	for _, row := range strings.Split(table, "\n") {
		files := path.FindAllString(row, -1)
		if len(files) == 0 {
			continue
		}
		rows++
		declared := map[string]bool{}
		for _, file := range files {
			for _, f := range functions(parse(t, filepath.Join("../..", file))) {
				name := f.Name.Name
				if of := receiver(f); of != "" {
					name = of + "." + name
				}
				declared[name] = true
			}
		}
		for _, name := range quoted.FindAllStringSubmatch(row, -1) {
			if !declared[name[1]] {
				t.Errorf("%s is in none of %v", name[1], files)
			}
		}
	}
	if rows < 4 {
		t.Errorf("%d rows are looked at, want those of pods, canaries, fuel and watches", rows)
	}
}
