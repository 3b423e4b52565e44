package containerd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/cgroup"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// pidOf finds the one process with a command line that holds all words.
func pidOf(t *testing.T, words ...string) int {
	t.Helper()
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		b, _ := os.ReadFile(path)
		line := strings.ReplaceAll(string(b), "\x00", " ")
		found := true
		for _, w := range words {
			found = found && strings.Contains(line, w)
		}
		if found {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			return pid
		}
	}
	t.Fatalf("no process with %q", words)
	return 0
}

func TestCrashes(t *testing.T) {
	n := newNode(t)
	for name, test := range map[string]func(*testing.T, *node){
		"containers outlive containerd":               testContainerdDies,
		"output goes on when the keeper dies":         testKeeperDies,
		"output goes on while the agent is away":      testAgentAway,
		"an exit while the agent is away is told":     testExitWhileAway,
		"a killed pause process ends the sandbox":     testPauseDies,
		"what a crash left is removed":                testLeftovers,
		"a lost shim leaves an unknown, then an exit": testShimDies,
		"a start that is cut off leaves nothing":      testStartsCutOff,
	} {
		t.Run(name, func(t *testing.T) { test(t, n) })
	}
}

const ticking = "i=0; while true; do echo tick $i; i=$((i+1)); sleep 0.05; done"

func (p pod) ticks(path string) int { return strings.Count(logged(p.t, path), "tick") }

func (p pod) goesOn(what, path string) {
	p.t.Helper()
	before := p.ticks(path)
	polltest.Until(p.t, what, func() bool { return p.ticks(path) > before+3 })
}

func testContainerdDies(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config(ticking)
	id := p.start(cfg)
	before := p.find(id)
	if err := syscall.Kill(pidOf(t, "containerd --config", n.cfg.State), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "containerd is started again", func() bool {
		_, err := n.runtime.List(t.Context())
		return err == nil
	})
	if after := p.find(id); after.PID != before.PID || after.State != runtime.Running {
		t.Errorf("before %+v, after %+v", before, after)
	}
	p.goesOn("output after containerd's death", cfg.LogPath)
	// Events are heard again.
	events, err := n.runtime.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := p.start(p.config("exit 3"))
	if c := p.ended(other); c.ExitCode != 3 {
		t.Errorf("exit code %d", c.ExitCode)
	}
	select {
	case <-events:
	case <-time.After(time.Minute):
		t.Error("no events after containerd's death")
	}
}

func testKeeperDies(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config(ticking)
	p.start(cfg)
	polltest.Until(t, "output", func() bool { return p.ticks(cfg.LogPath) > 1 })
	if err := syscall.Kill(pidOf(t, "berth-streams", n.cfg.State), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.goesOn("output after the keeper's death", cfg.LogPath)
}

func testAgentAway(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config(ticking)
	p.start(cfg)
	polltest.Until(t, "output", func() bool { return p.ticks(cfg.LogPath) > 1 })
	if err := n.runtime.Close(); err != nil {
		t.Fatal(err)
	}
	p.goesOn("output while the agent is away", cfg.LogPath)
	n.open(t)
	p.goesOn("output after the agent is back", cfg.LogPath)
}

func testExitWhileAway(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("sleep 0.5; echo bye; exit 9")
	id := p.start(cfg)
	pid := p.find(id).PID
	if err := n.runtime.Close(); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the container ends", func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) })
	n.open(t)
	c := p.ended(id)
	if c.ExitCode != 9 || logged(t, cfg.LogPath) != "bye\n" {
		t.Errorf("exit code %d, log %q; want 9, bye", c.ExitCode, logged(t, cfg.LogPath))
	}
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

func testPauseDies(t *testing.T, n *node) {
	p := n.pod(t, nil)
	list, err := n.runtime.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Sandboxes {
		if s.ID == p.id {
			if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	polltest.Until(t, "the sandbox is exited", func() bool {
		list, err := n.runtime.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Sandboxes {
			if s.ID == p.id {
				return s.State == runtime.Exited
			}
		}
		return false
	})
}

func testShimDies(t *testing.T, n *node) {
	p := n.pod(t, nil)
	id := p.start(p.config("sleep 600"))
	if err := syscall.Kill(pidOf(t, "containerd-shim-runc-v2", p.id), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the container is seen to be gone", func() bool {
		s := p.find(id).State
		return s == runtime.Unknown || s == runtime.Exited
	})
	if err := n.runtime.StopContainer(t.Context(), id, 0); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func testLeftovers(t *testing.T, n *node) {
	p := n.pod(t, nil)
	if err := n.runtime.Close(); err != nil {
		t.Fatal(err)
	}
	pipes, shm := filepath.Join(n.cfg.State, "io", "gone"), filepath.Join(n.cfg.State, "shm", "gone")
	for _, dir := range []string{pipes, shm} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("shm", shm, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	n.open(t)
	for _, dir := range []string{pipes, shm} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
	if got := p.output(p.config("echo x > /dev/shm/f && cat /dev/shm/f")); got != "x\n" {
		t.Errorf("the pod that is there lost its shared memory: %q", got)
	}
}

// testStartsCutOff ends starts at every moment: whatever had been made by then goes
// with the sandbox, and no process stays in its cgroup.
func testStartsCutOff(t *testing.T, n *node) {
	tree, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for after := time.Duration(0); after < 80*time.Millisecond; after += 2 * time.Millisecond {
		parent := ""
		p := n.pod(t, func(cfg *runtime.SandboxConfig) { parent = cfg.CgroupParent })
		ctx, cancel := context.WithTimeout(t.Context(), after)
		id, err := n.runtime.CreateContainer(ctx, p.id, p.config("exec sleep 1000"))
		if err == nil {
			_ = n.runtime.StartContainer(ctx, id) // whether it came in time or not
		}
		cancel()
		if err := n.runtime.RemoveSandbox(t.Context(), p.id); err != nil {
			t.Fatalf("a start was cut off after %s: %v", after, err)
		}
		if err := tree.Remove(parent); err != nil {
			t.Fatalf("a start was cut off after %s: %v", after, err)
		}
	}
}
