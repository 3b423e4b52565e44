package walk_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// inside marks the process that has its own network and mounts.
const inside = "BERTH_TEST_BINARY"

// binary is the berth that the tests drive, root the repository's folder.
var binary, root string

// TestMain builds the binary and runs the tests in network and mount
// namespaces of their own, where they may be root: what they leave behind
// there, should they be killed, nobody meets.
func TestMain(m *testing.M) {
	root, _ = filepath.Abs("../../../..")
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth's tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	if binary = os.Getenv(inside); binary != "" {
		if err := settle(); err != nil {
			return 0, err
		}
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "berth-binary-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := compile(dir); err != nil {
		return 0, err
	}
	if os.Geteuid() != 0 {
		return m.Run(), nil
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"="+binary)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// compile builds the policies, of which nothing is done twice, and the binary as
// .ci/tools/build.sh does.
func compile(dir string) error {
	binary = filepath.Join(dir, "berth")
	for _, args := range [][]string{{".ci/tools/wasm.sh"}, {"go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", binary, "./host/cmd/berth"}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", args, err, out)
		}
	}
	return nil
}

// settle gives the fresh namespaces a loopback and a /run of their own.
func settle() error {
	for _, args := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"mount", "--make-rprivate", "/"},
		{"mount", "-t", "tmpfs", "run", "/run"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", args, err, out)
		}
	}
	return nil
}
