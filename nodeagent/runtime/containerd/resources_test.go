package containerd_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/nodeagent/cgroup"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// cgroupFile reads a file of a process's cgroup, by its name in either version.
func cgroupFile(t *testing.T, pid int, v1controller, v1, v2 string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		path := filepath.Join("/sys/fs/cgroup", v1controller, parts[2], v1)
		if parts[1] == "" {
			path = filepath.Join("/sys/fs/cgroup", parts[2], v2)
		} else if parts[1] != v1controller {
			continue
		}
		if b, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(b))
		}
	}
	t.Fatalf("no %s or %s for process %d in %s", v1, v2, pid, b)
	return ""
}

func testLimits(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("sleep 600")
	cfg.Resources = runtime.Resources{MemoryLimit: 64 << 20, PidsLimit: 77, CPUShares: 512, CPUQuota: 20000, CPUPeriod: 100000, OOMScoreAdj: 500}
	pid := p.find(p.start(cfg)).PID
	if got := cgroupFile(t, pid, "memory", "memory.limit_in_bytes", "memory.max"); got != fmt.Sprint(64<<20) {
		t.Errorf("memory limit %s", got)
	}
	if got := cgroupFile(t, pid, "pids", "pids.max", "pids.max"); got != "77" {
		t.Errorf("pids limit %s", got)
	}
	if got := cgroupFile(t, pid, "cpu", "cpu.cfs_quota_us", "cpu.max"); !strings.HasPrefix(got, "20000") {
		t.Errorf("cpu quota %s", got)
	}
	if got := cgroupFile(t, pid, "cpu", "cpu.shares", "cpu.weight"); got != "512" && got != "59" {
		t.Errorf("cpu shares or weight %s, want 512 shares or a weight of 59", got)
	}
	if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)); strings.TrimSpace(string(b)) != "500" {
		t.Errorf("oom score %s", b)
	}
}

func testUpdate(t *testing.T, n *node) {
	p := n.pod(t, nil)
	id := p.start(p.config("sleep 600"))
	if err := n.runtime.UpdateContainer(t.Context(), id, runtime.Resources{MemoryLimit: 48 << 20}); err != nil {
		t.Fatal(err)
	}
	if got := cgroupFile(t, p.find(id).PID, "memory", "memory.limit_in_bytes", "memory.max"); got != fmt.Sprint(48<<20) {
		t.Errorf("memory limit %s", got)
	}
	if err := n.runtime.UpdateContainer(t.Context(), "absent", runtime.Resources{}); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("UpdateContainer of none: %v", err)
	}
}

func testOOM(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("head -c 200000000 /dev/zero | tail")
	cfg.Args = []string{"/bin/tail", "/dev/zero"}
	cfg.Resources = runtime.Resources{MemoryLimit: 16 << 20}
	if c := p.ended(p.start(cfg)); !c.OOMKilled || c.ExitCode != 137 {
		t.Errorf("exit code %d, OOM %v; want 137, true", c.ExitCode, c.OOMKilled)
	}
	if tree, err := cgroup.Open("/sys/fs/cgroup"); err != nil || !tree.V2() {
		return // v1 ends the one process that wanted too much
	}
	cfg = p.config("tail /dev/zero; exec sleep 600")
	cfg.Resources = runtime.Resources{MemoryLimit: 16 << 20}
	if c := p.ended(p.start(cfg)); !c.OOMKilled || c.ExitCode != 137 {
		t.Errorf("with processes that want little, exit code %d, OOM %v; want 137, true", c.ExitCode, c.OOMKilled)
	}
}
