// Package cgroup keeps the cgroups above those of containers: one for all
// pods, one for each QoS class, one for each pod, on cgroup v2 or on the
// controllers of v1 (hybrid). The runtime makes the ones below.
package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Tree is a mounted cgroup hierarchy.
type Tree struct {
	root string
	v2   bool
	// controllers of v1 by their mount folder.
	controllers []string
}

// Open looks at what is mounted at root, normally /sys/fs/cgroup.
func Open(root string) (*Tree, error) {
	t := &Tree{root: root}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		t.v2 = true
		return t, nil
	}
	for _, c := range []string{"cpu", "memory", "pids", "cpuset", "cpuacct", "blkio", "devices", "freezer", "hugetlb", "net_cls", "net_prio", "perf_event"} {
		if info, err := os.Stat(filepath.Join(root, c)); err == nil && info.IsDir() {
			t.controllers = append(t.controllers, c)
		}
	}
	if len(t.controllers) == 0 {
		return nil, fmt.Errorf("no cgroups at %s: mount cgroup v2 there, or the controllers of v1", root)
	}
	return t, nil
}

// V2 says whether the tree is the unified one.
func (t *Tree) V2() bool { return t.v2 }

// Ensure makes a cgroup and sets its limits; zero fields set nothing. Limits of
// huge pages are set as they are, 0 too, where the kernel counts huge pages.
func (t *Tree) Ensure(path string, res runtime.Resources) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("cgroup path %q is not absolute and clean", path)
	}
	if t.v2 {
		return t.ensureV2(path, res)
	}
	for _, c := range t.controllers {
		if err := os.MkdirAll(filepath.Join(t.root, c, path), 0o755); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
		if c == "cpuset" {
			if err := t.inherit(path); err != nil {
				return err
			}
		}
	}
	return errors.Join(
		t.set("cpu", path, "cpu.shares", res.CPUShares),
		t.set("cpu", path, "cpu.cfs_period_us", res.CPUPeriod),
		t.set("cpu", path, "cpu.cfs_quota_us", res.CPUQuota),
		t.set("memory", path, "memory.limit_in_bytes", res.MemoryLimit),
		t.set("pids", path, "pids.max", res.PidsLimit),
		hugepages(filepath.Join(t.root, "hugetlb", path), "limit_in_bytes", res.Hugepages))
}

// hugepages limits pages in use and, where the kernel can, those reserved.
func hugepages(dir, file string, limits map[string]int64) error {
	var errs []error
	for size, limit := range limits {
		for _, kind := range []string{"", "rsvd."} {
			name := filepath.Join(dir, "hugetlb."+size+"."+kind+file)
			if _, err := os.Stat(name); err != nil {
				continue
			}
			if err := os.WriteFile(name, []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
				errs = append(errs, fmt.Errorf("cgroup: set %s to %d: %w", name, limit, err))
			}
		}
	}
	return errors.Join(errs...)
}

// inherit copies the cpuset downwards: an empty one admits no process.
func (t *Tree) inherit(path string) error {
	dir := filepath.Join(t.root, "cpuset")
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		up := dir
		dir = filepath.Join(dir, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			have, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return fmt.Errorf("cgroup: %w", err)
			}
			if strings.TrimSpace(string(have)) != "" {
				continue
			}
			from, err := os.ReadFile(filepath.Join(up, file))
			if err != nil {
				return fmt.Errorf("cgroup: %w", err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), from, 0o644); err != nil {
				return fmt.Errorf("cgroup: %w", err)
			}
		}
	}
	return nil
}

func (t *Tree) set(controller, path, file string, value int64) error {
	if value == 0 {
		return nil
	}
	err := os.WriteFile(filepath.Join(t.root, controller, path, file), []byte(strconv.FormatInt(value, 10)), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // this kernel lacks the controller
	}
	if err != nil {
		return fmt.Errorf("cgroup: set %s of %s to %d: %w", file, path, value, err)
	}
	return nil
}

func (t *Tree) ensureV2(path string, res runtime.Resources) error {
	dir := t.root
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		for _, c := range []string{"+cpu", "+memory", "+pids", "+cpuset", "+io", "+hugetlb"} {
			// A controller that the kernel lacks is no reason to fail.
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(c), 0o644)
		}
		dir = filepath.Join(dir, part)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	var errs []error
	put := func(file, value string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
			controller, _, _ := strings.Cut(file, ".")
			errs = append(errs, fmt.Errorf("cgroup: set %s of %s to %s: is the controller %s in cgroup.subtree_control of all that is above? %w",
				file, path, value, controller, err))
		}
	}
	if res.CPUShares > 0 {
		put("cpu.weight", strconv.FormatInt(Weight(res.CPUShares), 10))
	}
	if res.CPUQuota > 0 {
		put("cpu.max", fmt.Sprintf("%d %d", res.CPUQuota, cmp.Or(res.CPUPeriod, 100_000)))
	}
	if res.MemoryLimit > 0 {
		put("memory.max", strconv.FormatInt(res.MemoryLimit, 10))
	}
	if res.PidsLimit > 0 {
		put("pids.max", strconv.FormatInt(res.PidsLimit, 10))
	}
	return errors.Join(append(errs, hugepages(dir, "max", res.Hugepages))...)
}

// Weight turns cpu.shares (2…262144) into cpu.weight (1…10000) linearly, as the
// kubelet does for the cgroups above those of containers. From 1.4 on runc has
// another formula for those below: each compares siblings only.
func Weight(shares int64) int64 {
	return 1 + (min(max(shares, 2), 262144)-2)*9999/262142
}

// Remove removes a cgroup and those below it. What still runs in them is killed, and
// until it has ended Remove is an error.
func (t *Tree) Remove(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
		return fmt.Errorf("cgroup path %q is not absolute and clean", path)
	}
	if t.v2 {
		return removeTree(filepath.Join(t.root, path))
	}
	roots := append([]string{"unified", "systemd"}, t.controllers...)
	var errs []error
	for _, c := range roots {
		errs = append(errs, removeTree(filepath.Join(t.root, c, path)))
	}
	return errors.Join(errs...)
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	err = unix.Rmdir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.EBUSY):
		return errors.Join(fmt.Errorf("cgroup: remove %s: %w", dir, err), killAll(dir))
	case err != nil:
		return fmt.Errorf("cgroup: remove %s: %w", dir, err)
	}
	return nil
}

// killAll ends the processes of a cgroup.
func killAll(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	for line := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			return fmt.Errorf("cgroup: %s holds the process %q: %w", dir, line, err)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("cgroup: end process %d: %w", pid, err)
		}
	}
	return nil
}

// Pods lists the pods' UIDs that have a cgroup below root+"/kubepods".
func (t *Tree) Pods(root string) []string {
	base := t.root
	if !t.v2 {
		base = filepath.Join(t.root, t.controllers[0])
	}
	var out []string
	for _, class := range []string{"", "burstable", "besteffort"} {
		dirs, _ := filepath.Glob(filepath.Join(base, root, "kubepods", class, "pod*"))
		for _, d := range dirs {
			out = append(out, strings.TrimPrefix(filepath.Base(d), "pod"))
		}
	}
	return out
}

// None is for machines where the agent may not touch cgroups: it does nothing.
type None struct{}

// Ensure does nothing.
func (None) Ensure(string, runtime.Resources) error { return nil }

// Remove does nothing.
func (None) Remove(string) error { return nil }
