package api_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what kubectl prints into the goldens")

// findKubectl gives the path of the kubectl that the tools module pins, built if
// need be.
var findKubectl = sync.OnceValues(func() (string, error) {
	home, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	tools := filepath.Join(home, "berth", "tools")
	if dir := os.Getenv("BERTH_TOOLS"); dir != "" {
		tools = dir
	}
	path := filepath.Join(tools, "bin", "kubectl")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if out, err := exec.Command("../../.ci/tools/kubectl.sh").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubectl: %w\n%s", err, out)
	}
	return path, nil
})

// TestKubectlPrintsWhatItPrintsForKubernetes runs the commands in each golden
// file, one after another against one server, and compares what they print.
//
//	$ kubectl get pods       a command; what follows is what it printed
//	& kubectl get pods -w    a command that goes on
//	. 2                      until it has printed so many lines
//	# …                      a comment
func TestKubectlPrintsWhatItPrintsForKubernetes(t *testing.T) {
	t.Parallel()
	kubectl, err := findKubectl()
	if err != nil {
		t.Fatal(err)
	}
	eachGolden(t, func(t *testing.T, file string) {
		want, got := walkGolden(t, file, newShell(t, kubectl, preparedFor(file)))
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kubectl prints otherwise (-want +got); if that is right, run with -update:\n%s", diff)
		}
	})
}

// preparedFor tells whether a file's server has accounts, roles, admission and
// addresses, as a whole host has; the others print less that is beside their
// point.
func preparedFor(file string) bool {
	name := filepath.Base(file)
	return name == "access.txt" || name == "make.txt"
}

func eachGolden(t *testing.T, walk func(t *testing.T, file string)) {
	files, err := filepath.Glob("testdata/kubectl/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			walk(t, file)
		})
	}
}

// walkGolden gives what a file says and what its commands print now.
func walkGolden(t *testing.T, file string, sh *shell) (want, got string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, line := range strings.Split(string(data), "\n") {
		if !strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "$ ") && !strings.HasPrefix(line, "& ") && !strings.HasPrefix(line, ". ") {
			continue // what was printed the last time
		}
		if out.Len() > 0 && !strings.HasPrefix(lastLine(out.String()), "# ") {
			fmt.Fprintln(&out)
		}
		fmt.Fprintln(&out, line)
		if line[0] != '#' {
			out.WriteString(sh.do(line))
		}
	}
	return string(data), out.String()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return lines[len(lines)-1]
}
