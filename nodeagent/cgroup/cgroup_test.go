package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/cgroup/guestkernel"
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

// all are limits of every kind.
var all = runtime.Resources{
	CPUShares: 1024, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryLimit: 1 << 20, PidsLimit: 77,
	Hugepages: map[string]int64{"2MB": 4 << 20, "1GB": 0},
}

// files gives the texts of the files of a folder, without those that are empty.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 0 {
			out[e.Name()] = string(text)
		}
	}
	return out
}

func TestUnifiedTree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		res  runtime.Resources
		want map[string]string
	}{
		{"every limit", all, map[string]string{
			"cpu.weight": "39", "cpu.max": "50000 100000", "memory.max": "1048576", "pids.max": "77",
			"hugetlb.2MB.max": "4194304", "hugetlb.2MB.rsvd.max": "4194304", "hugetlb.1GB.max": "0",
		}},
		{"none", runtime.Resources{}, map[string]string{}},
		{"shares alone", runtime.Resources{CPUShares: 2}, map[string]string{"cpu.weight": "1"}},
		{"pages of a size that the kernel does not count", runtime.Resources{Hugepages: map[string]int64{"64KB": 0}}, map[string]string{}},
	} {
		root := t.TempDir()
		put(t, filepath.Join(root, "cgroup.controllers"), "cpu memory pids hugetlb")
		for _, file := range []string{"hugetlb.2MB.max", "hugetlb.2MB.rsvd.max", "hugetlb.1GB.max"} {
			put(t, filepath.Join(root, "kubepods/burstable/podu1", file), "")
		}
		tree, err := Open(root)
		if err != nil || !tree.V2() {
			t.Fatalf("Open: %v, %v", tree, err)
		}
		if err := tree.Ensure("/kubepods/burstable/podu1", tt.res); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, files(t, filepath.Join(root, "kubepods/burstable/podu1"))); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		for _, up := range []string{"", "kubepods", "kubepods/burstable"} { // the last one asked for stays in a plain file
			if got := files(t, filepath.Join(root, up))["cgroup.subtree_control"]; got != "+hugetlb" {
				t.Errorf("%s: controllers for what is below %q: %q", tt.name, up, got)
			}
		}
		if got := tree.Pods(""); !slices.Equal(got, []string{"u1"}) {
			t.Errorf("Pods = %v", got)
		}
	}
}

func TestUnifiedTreeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.controllers"), "")
	if err := os.MkdirAll(filepath.Join(root, "x", "memory.max"), 0o755); err != nil { // so that it can not be written
		t.Fatal(err)
	}
	tree, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	err = tree.Ensure("/x", runtime.Resources{MemoryLimit: 5})
	if err == nil || !strings.Contains(err.Error(), "set memory.max of /x to 5: is the controller memory in cgroup.subtree_control of all that is above?") {
		t.Errorf("Ensure: %v", err)
	}
}

// unifiedTree is a folder on which the kernel's v2 tree is mounted: where it is,
// or in mounts that this test alone has.
func unifiedTree(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this needs root")
	}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
			return root
		}
	}
	return mountUnified(t)
}

// mountUnified mounts the tree in a mount namespace of the test's own thread,
// which ends with the test.
func mountUnified(t *testing.T) string {
	t.Helper()
	goruntime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		t.Fatalf("a mount namespace of its own: %v", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatalf("mounts of its own: %v", err)
	}
	root, err := os.MkdirTemp("", "cgroup2-") // t.TempDir would remove what is below, and that are all cgroups
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		t.Fatalf("mount cgroup v2: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(root, 0), unix.Rmdir(root)); err != nil {
			t.Error(err)
		}
	})
	return root
}

// TestMountedTree mounts the kernel's v2 tree itself, as where none is mounted.
func TestMountedTree(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this needs root")
	}
	testKernelsTree(t, mountUnified(t))
}

// TestKernelsOwnTree writes what can be written to the v2 tree of this machine:
// all of it, or what cgroup v1 has left to it.
func TestKernelsOwnTree(t *testing.T) { testKernelsTree(t, unifiedTree(t)) }

func testKernelsTree(t *testing.T, root string) {
	t.Helper()
	tree, err := Open(root)
	if err != nil || !tree.V2() {
		t.Fatalf("Open(%s): %v, %v", root, tree, err)
	}
	before, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/berth-cgroup-test-%d/kubepods/podu1", os.Getpid())
	t.Cleanup(func() {
		if err := tree.Remove(filepath.Dir(filepath.Dir(path))); err != nil {
			t.Error(err)
		}
		for c := range strings.FieldsSeq("cpu memory pids cpuset io hugetlb") {
			if !slices.Contains(strings.Fields(string(before)), c) { // others may use it by now: then it stays
				_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("-"+c), 0o644)
			}
		}
	})
	res, want := runtime.Resources{}, map[string]string{}
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		t.Fatal(err)
	}
	for c := range strings.FieldsSeq(string(controllers)) {
		switch c {
		case "cpu":
			res.CPUShares, res.CPUQuota, res.CPUPeriod = all.CPUShares, all.CPUQuota, all.CPUPeriod
			want["cpu.weight"], want["cpu.max"] = "39", "50000 100000"
		case "memory":
			res.MemoryLimit, want["memory.max"] = all.MemoryLimit, "1048576"
		case "pids":
			res.PidsLimit, want["pids.max"] = all.PidsLimit, "77"
		case "hugetlb":
			res.Hugepages, want["hugetlb.2MB.max"] = map[string]int64{"2MB": 4 << 20}, "4194304"
		}
	}
	if err := tree.Ensure(path, res); err != nil {
		t.Fatal(err)
	}
	for file, text := range want {
		got, err := os.ReadFile(filepath.Join(root, path, file))
		if err != nil || strings.TrimSpace(string(got)) != text {
			t.Errorf("%s = %q, %v; want %q", file, got, err, text)
		}
	}
	for c := range strings.FieldsSeq(os.Getenv(guestkernel.Controllers)) {
		if !slices.Contains(strings.Fields(string(controllers)), c) {
			t.Errorf("this kernel has not %s among %q", c, controllers)
		}
	}
	if len(want) == 0 {
		t.Logf("the tree has no controllers to try: %q", controllers)
	}
}

// TestWhatRunsInACgroupEndsWithIt has a process in a cgroup that is removed, as one
// that a crash left there.
func TestWhatRunsInACgroupEndsWithIt(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("cgroups need root")
		}
		t.Skip("cgroups need root")
	}
	tree, err := Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/berth-cgroup-test-%d/podu2", os.Getpid())
	if err := tree.Ensure(path, runtime.Resources{}); err != nil {
		t.Fatal(err)
	}
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sleep.Wait() }()
	roots := []string{"/sys/fs/cgroup"}
	if !tree.V2() {
		roots, _ = filepath.Glob("/sys/fs/cgroup/*")
	}
	for _, root := range roots {
		// A folder that is no hierarchy, or a link to one, has none of this file.
		err := os.WriteFile(filepath.Join(root, path, "cgroup.procs"), []byte(fmt.Sprint(sleep.Process.Pid)), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := tree.Remove(path); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("Remove = %v while a process is in it, want EBUSY", err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended by %v, want a kill", err)
	}
	if err := tree.Remove(filepath.Dir(path)); err != nil {
		t.Errorf("Remove = %v when it has ended", err)
	}
}

// TestEveryControllerOfV2 does the same on a kernel that has them all in v2.
func TestEveryControllerOfV2(t *testing.T) {
	if os.Getenv("BERTH_CAMPAIGN") != "" {
		guestkernel.Run(t, "TestKernelsOwnTree", time.Minute)
	}
}

func TestControllersOfV1(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, file := range []string{
		"cpu/kubepods/podu1/cpu.shares", "memory/kubepods/podu1/memory.limit_in_bytes", "pids/kubepods/podu1/pids.max",
		"hugetlb/kubepods/podu1/hugetlb.2MB.limit_in_bytes", "hugetlb/kubepods/podu1/hugetlb.2MB.rsvd.limit_in_bytes",
		"hugetlb/kubepods/podu1/hugetlb.1GB.limit_in_bytes",
	} {
		put(t, filepath.Join(root, file), "")
	}
	tree, err := Open(root)
	if err != nil || tree.V2() {
		t.Fatalf("Open: %v, %v", tree, err)
	}
	if err := tree.Ensure("/kubepods/podu1", all); err != nil {
		t.Fatal(err)
	}
	for controller, want := range map[string]map[string]string{
		"cpu":     {"cpu.shares": "1024", "cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"},
		"memory":  {"memory.limit_in_bytes": "1048576"},
		"pids":    {"pids.max": "77"},
		"hugetlb": {"hugetlb.2MB.limit_in_bytes": "4194304", "hugetlb.2MB.rsvd.limit_in_bytes": "4194304", "hugetlb.1GB.limit_in_bytes": "0"},
	} {
		if diff := cmp.Diff(want, files(t, filepath.Join(root, controller, "kubepods/podu1"))); diff != "" {
			t.Errorf("%s: %s", controller, diff)
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
