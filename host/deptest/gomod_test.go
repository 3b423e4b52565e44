package deptest

import (
	"os"
	"strings"
	"testing"
)

// go.mod has a block a purpose, and one for what the others need.
func TestWhatIsUsedDirectlyStandsInABlockOfItsPurpose(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	named, needed := 0, false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "// "):
			needed = line == "// What these need."
		case strings.HasPrefix(line, "require ("):
			named++
		case strings.HasPrefix(line, "replace"):
			return
		case strings.HasPrefix(line, "\t") && strings.Contains(line, "// indirect") != needed:
			t.Errorf("go.mod: %s stands in a block that is not its own", strings.TrimSpace(line))
		}
	}
	if named < 5 {
		t.Errorf("go.mod has %d blocks, want one a purpose", named)
	}
}
