package rollout_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the scripts answer into them")

// runScript walks a file of steps, each a line with a command, the line "----",
// and what is to come of it up to an empty line. Lines with # before a command
// are its comment.
func runScript(t *testing.T, file string, run func(t *testing.T, command string) string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, step := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		head, want, _ := strings.Cut(step, "\n----")
		lines := strings.Split(head, "\n")
		got := ""
		for _, line := range lines {
			if line != "" && !strings.HasPrefix(line, "#") {
				got += run(t, line)
			}
		}
		if want = strings.TrimSpace(want); want != strings.TrimSpace(got) && !*update {
			t.Errorf("%s: %s\n got:\n%s\nwant:\n%s", filepath.Base(file), lines[len(lines)-1], indent(got), indent(want))
		}
		out.WriteString(head + "\n")
		if got != "" {
			out.WriteString("----\n" + strings.TrimRight(got, "\n") + "\n")
		}
		out.WriteString("\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func indent(text string) string {
	return "\t" + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n\t")
}
