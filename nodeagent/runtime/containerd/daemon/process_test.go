package daemon

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/polltest"
)

// The test program plays two parts beside its own: a containerd that does
// nothing but listen, and an agent that starts it.
const (
	part      = "BERTH_TEST_PART"
	stateIn   = "BERTH_TEST_STATE"
	pidFile   = "pid"
	readyLine = "ready"
)

func TestMain(m *testing.M) {
	state := os.Getenv(stateIn)
	switch os.Getenv(part) {
	case "agent":
		playAgent(state)
	case "containerd":
		playContainerd(state)
	default:
		os.Exit(m.Run())
	}
}

func playContainerd(state string) {
	cfg := Config{State: state}
	_ = os.Remove(cfg.Address())
	if _, err := net.Listen("unix", cfg.Address()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := os.WriteFile(filepath.Join(state, pidFile), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		os.Exit(1)
	}
	polltest.Pass(time.Minute) // longer than any test
}

func playAgent(state string) {
	os.Setenv(part, "containerd")
	if _, err := Start(context.Background(), fakeConfig(state)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(readyLine)
	select {}
}

func fakeConfig(state string) Config {
	return Config{Root: state, State: state, Containerd: "/proc/self/exe", Log: slog.New(slog.DiscardHandler)}
}

func shortState(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containerd needs root")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// pid waits for a containerd that is not the one named.
func pid(t *testing.T, state string, not int) int {
	t.Helper()
	var found int
	polltest.Until(t, "a containerd is started", func() bool {
		b, _ := os.ReadFile(filepath.Join(state, pidFile)) // not there yet
		n, err := strconv.Atoi(string(b))
		found = n
		return err == nil && n != not
	})
	return found
}

// gone waits for a process to end; a zombie has.
func gone(pid int) bool {
	return polltest.Within(time.Minute, func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}

func TestContainerdEndsWithAnAgentThatIsKilled(t *testing.T) {
	t.Parallel()
	state := shortState(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), part+"=agent", stateIn+"="+state)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != readyLine {
		t.Fatalf("the agent said %q, %v", line, err)
	}
	containerd := pid(t, state, 0)
	// Longer than idle threads live: the signal is tied to one.
	polltest.Pass(200 * time.Millisecond)
	if err := syscall.Kill(containerd, 0); err != nil {
		t.Fatalf("containerd ended too early: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !gone(containerd) {
		t.Error("containerd outlives its agent")
	}
}

func TestContainerdIsStartedAgain(t *testing.T) {
	state := shortState(t)
	t.Setenv(part, "containerd")
	t.Setenv(stateIn, state)
	d, err := Start(t.Context(), fakeConfig(state))
	if err != nil {
		t.Fatal(err)
	}
	first := pid(t, state, 0)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := pid(t, state, first)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if !gone(second) {
		t.Error("containerd outlives Close")
	}
}
