package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestUnifiedTree(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.controllers"), "cpu memory")
	tree, err := Open(root)
	if err != nil || !tree.V2() {
		t.Fatalf("Open: %v, %v", tree, err)
	}
	if err := tree.Ensure("/kubepods/burstable/podu1", runtime.Resources{CPUShares: 1024, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryLimit: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"cpu.weight": "39", "cpu.max": "50000 100000", "memory.max": "1048576"} {
		if got, err := os.ReadFile(filepath.Join(root, "kubepods/burstable/podu1", file)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", file, got, err, want)
		}
	}
	if got := tree.Pods(""); !slices.Equal(got, []string{"u1"}) {
		t.Errorf("Pods = %v", got)
	}
}

func TestControllersOfV1(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, file := range []string{"cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"} {
		put(t, filepath.Join(root, "cpu/kubepods/podu1", file), "")
	}
	put(t, filepath.Join(root, "memory/kubepods/podu1/memory.limit_in_bytes"), "")
	tree, err := Open(root)
	if err != nil || tree.V2() {
		t.Fatalf("Open: %v, %v", tree, err)
	}
	if err := tree.Ensure("/kubepods/podu1", runtime.Resources{CPUShares: 2, CPUQuota: 1000, CPUPeriod: 100_000, MemoryLimit: 4096}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"cpu/kubepods/podu1/cpu.shares": "2", "cpu/kubepods/podu1/cpu.cfs_quota_us": "1000", "memory/kubepods/podu1/memory.limit_in_bytes": "4096"} {
		if got, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", file, got, err, want)
		}
	}
	if err := tree.Remove("/kubepods/absent"); err != nil {
		t.Errorf("removing what is absent: %v", err)
	}
}

func TestPathsAreChecked(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.controllers"), "")
	tree, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "x", "/a/../../b", "/a//b"} {
		if tree.Ensure(path, runtime.Resources{}) == nil || tree.Remove(path) == nil {
			t.Errorf("path %q is accepted", path)
		}
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "mount cgroup v2") {
		t.Errorf("no cgroups: %v", err)
	}
}

func TestWeight(t *testing.T) {
	t.Parallel()
	for shares, want := range map[int64]int64{0: 1, 2: 1, 1024: 39, 262144: 10000, 1 << 40: 10000} {
		if got := Weight(shares); got != want {
			t.Errorf("Weight(%d) = %d, want %d", shares, got, want)
		}
	}
}
