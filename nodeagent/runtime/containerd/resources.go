package containerd

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroupOf is the cgroup of a container or pause process.
func cgroupOf(parent, id string) string {
	if parent == "" {
		parent = "/berth"
	}
	return path.Join("/", parent, id)
}

// resources turns limits into what runc applies, to cgroups of either version.
func resources(res runtime.Resources) *specs.LinuxResources {
	out := &specs.LinuxResources{CPU: &specs.LinuxCPU{}, Memory: &specs.LinuxMemory{}}
	if res.CPUShares > 0 {
		shares := uint64(res.CPUShares)
		out.CPU.Shares = &shares
	}
	if res.CPUQuota != 0 {
		out.CPU.Quota = &res.CPUQuota
	}
	if res.CPUPeriod > 0 {
		period := uint64(res.CPUPeriod)
		out.CPU.Period = &period
	}
	if res.MemoryLimit > 0 {
		out.Memory.Limit = &res.MemoryLimit
		if limitsSwap() {
			out.Memory.Swap = &res.MemoryLimit
		}
	}
	if unified() {
		out.Unified = unifiedOnly(res)
	}
	if res.PidsLimit > 0 {
		out.Pids = &specs.LinuxPids{Limit: &res.PidsLimit}
	}
	for size, limit := range res.Hugepages {
		if !limitsHugepages() {
			break
		}
		out.HugepageLimits = append(out.HugepageLimits, specs.LinuxHugepageLimit{Pagesize: size, Limit: uint64(limit)})
	}
	return out
}

// unifiedOnly is what cgroup v2 alone can: that all processes of a container go
// when its memory runs out, not one that leaves the others in an odd state; and
// that a container without a limit of memory does not swap either.
func unifiedOnly(res runtime.Resources) map[string]string {
	out := map[string]string{"memory.oom.group": "1"}
	if res.MemoryLimit == 0 && limitsSwap() {
		out["memory.swap.max"] = "0"
	}
	return out
}

func withResources(res runtime.Resources) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		devices := s.Linux.Resources.Devices
		s.Linux.Resources = resources(res)
		s.Linux.Resources.Devices = devices
		return nil
	}
}

// limitsSwap: there is swap, and the kernel counts it. Memory limits then hold
// for both together, so that a pod does not swap beyond its limit.
var limitsSwap = sync.OnceValue(func() bool {
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil || strings.Count(string(swaps), "\n") < 2 {
		return false
	}
	if unified() {
		return true
	}
	_, err = os.Stat(filepath.Join(cgroupRoot, "memory", "memory.memsw.limit_in_bytes"))
	return err == nil
})

// limitsHugepages: the kernel counts huge pages by cgroup. Where it does not,
// runc refuses limits of them.
var limitsHugepages = sync.OnceValue(func() bool {
	if unified() {
		controllers, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers"))
		return err == nil && slices.Contains(strings.Fields(string(controllers)), "hugetlb")
	}
	_, err := os.Stat(filepath.Join(cgroupRoot, "hugetlb", "cgroup.procs"))
	return err == nil
})

// unified: the machine has cgroup v2.
func unified() bool { return cgroups.Mode() == cgroups.Unified }

// oomKills counts the processes of a cgroup that the kernel killed for memory.
func oomKills(cgroup string) int64 {
	if unified() {
		return counter(filepath.Join(cgroupRoot, cgroup, "memory.events"), "oom_kill")
	}
	return counter(filepath.Join(cgroupRoot, "memory", cgroup, "memory.oom_control"), "oom_kill")
}

// counter reads "NAME NUMBER" from a file of the kernel; 0 if there is none.
func counter(file, name string) int64 {
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

// removeCgroup removes a pod's cgroup, and parents that became empty with it,
// from all hierarchies. One that is still used stays.
func removeCgroup(cgroup string) {
	if cgroup == "" || cgroup == "/" {
		return
	}
	roots := []string{cgroupRoot}
	if !unified() {
		roots = nil
		entries, err := os.ReadDir(cgroupRoot)
		if err != nil {
			return
		}
		for _, e := range entries {
			roots = append(roots, filepath.Join(cgroupRoot, e.Name()))
		}
	}
	for _, root := range roots {
		dir := filepath.Join(root, cgroup)
		removeTree(dir)
	}
}

// removeTree removes a cgroup and those below it, which only works if they are
// empty of processes.
func removeTree(dir string) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}
