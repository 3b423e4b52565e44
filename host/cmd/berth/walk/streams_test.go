package walk_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/nodeagent/image/testimage"
)

var update = flag.Bool("update", false, "write what kubectl prints into the goldens")

// busyboxImage is an archive of an image with a shell.
func busyboxImage(t *testing.T) string {
	t.Helper()
	image, err := testimage.Busybox()
	if err != nil {
		missing(t, err.Error())
	}
	archive, err := testimage.Archive("berth.test/busybox:1", image)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "busybox.tar")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, archive); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// testStreams reaches into a pod by logs, exec, cp, attach, port-forward, debug
// and proxies, and compares what kubectl prints. Older kubectls, where they are
// installed, speak other protocols and must print the same.
func (c *cluster) testStreams(t *testing.T) {
	var older []string
	if !alone() {
		older, _ = filepath.Glob(filepath.Join(build.ToolsDir(), "bin", "kubectl-1.*"))
	}
	for _, kubectl := range append([]string{c.kubectl}, older...) {
		waited := true
		c.run(t, filepath.Base(kubectl), func(t *testing.T) {
			var diff string
			diff, waited = c.walkStreams(t, kubectl)
			// Clients of 1.30 to 1.33 drop output that comes before they listen, and
			// kubectl wait may tell of the watch that it ends itself.
			for try := 0; try < 3 && (strings.Contains(diff, "Unknown stream id") || strings.Contains(diff, "watch stream: context canceled")); try++ {
				diff, waited = c.walkStreams(t, kubectl)
			}
			if diff != "" {
				t.Errorf("kubectl prints otherwise (-want +got); if that is right, run with -update:\n%s", diff)
			}
		})
		if !waited {
			t.Fatal("what was waited for never came: no other kubectl is tried")
		}
	}
}

// walkStreams says how a transcript differs, and whether all came that it waits
// for; it ends where something does not.
func (c *cluster) walkStreams(t *testing.T, kubectl string) (diff string, waited bool) {
	const file = "testdata/streams.txt"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Symlink(kubectl, filepath.Join(home, "kubectl")); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, line := range strings.Split(string(want), "\n") {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		printed, err := c.sh(t, home, command)
		fmt.Fprintf(&got, "%s\n%s\n", line, printed)
		if err != nil && strings.HasPrefix(command, "kubectl wait ") {
			return cmp.Diff(string(want[:min(len(want), got.Len())]), got.String()), false
		}
	}
	if *update && kubectl == c.kubectl {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return "", true
	}
	return cmp.Diff(string(want), got.String()), true
}

// sh gives what a command prints, its errors among it, and its exit code if it
// isn't 0.
func (c *cluster) sh(t *testing.T, home, command string) (text string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = "testdata"
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig(), "HOME="+home, "PATH="+home+":"+os.Getenv("PATH"))
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	text = out.String()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err != nil {
		text += fmt.Sprintf("[%v]\n", err)
	}
	return text, err
}
