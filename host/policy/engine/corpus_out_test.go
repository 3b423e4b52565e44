package engine_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var corpusOut = flag.String("corpus.out", "", "folder into which the hostile modules are written")

// TestTheCorpusCanBeWritten writes each hostile module as a file, for
// ./task bench, which pushes them to a host.
func TestTheCorpusCanBeWritten(t *testing.T) {
	t.Parallel()
	dir := *corpusOut
	if dir == "" {
		dir = t.TempDir()
	}
	all := corpus()
	for i, h := range all {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.wasm", i)), h.build(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil || len(files) != len(all) || len(all) < 60 {
		t.Errorf("%d files for %d modules, %v; want one each, of 60 at least", len(files), len(all), err)
	}
}
