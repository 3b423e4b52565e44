package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// slow stands for a compiler or test that takes its time: it says which process
// it waits for, and leaves files behind as compilers do that are interrupted.
const slow = `#!/bin/sh
touch "$TMPDIR/left-behind"
sleep 600 &
echo $! >"$STARTED.new" && mv "$STARTED.new" "$STARTED"
wait
`

// Ctrl-C ends a command with all that it started, and leaves nothing behind.
func TestCtrlCLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, tool string
		args       []string
		signal     syscall.Signal
		code       int
	}{
		{"a build by TinyGo", "tinygo", []string{"policy", "build", "-o", os.DevNull}, syscall.SIGINT, 130},
		{"a build by Go, ended by SIGTERM", "go", []string{"policy", "build", "--go", "-o", os.DevNull}, syscall.SIGTERM, 143},
		{"tests", "go", []string{"policy", "test", "--go"}, syscall.SIGINT, 130},
		{"measures", "go", []string{"policy", "bench", "--go"}, syscall.SIGINT, 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tools, tmp, started := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "started")
			if err := os.WriteFile(filepath.Join(tools, tt.tool), []byte(slow), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], tt.args...)
			cmd.Dir = gpuOnly
			cmd.Env = append(os.Environ(), asBerth+"=1", "PATH="+tools+":"+os.Getenv("PATH"),
				"TMPDIR="+tmp, "STARTED="+started, "XDG_CACHE_HOME="+t.TempDir())
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the tool runs", func() bool { return exists(started) })
			if err := cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			var ended *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != tt.code {
				t.Errorf("it ended by %v, want exit code %d", err, tt.code)
			}
			if out := said.String(); strings.Contains(out, "canceled") || strings.Contains(out, "mend") || strings.Contains(out, "goroutine") || !strings.HasSuffix(out, "\n") {
				t.Errorf("it says:\n%q", out)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("it leaves %v, %v", left, err)
			}
			child, err := os.ReadFile(started)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(child)))
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "what the tool started has ended", func() bool { return !running(pid) })
		})
	}
}

// running says whether a process is there and is more than a memory of one.
func running(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}
