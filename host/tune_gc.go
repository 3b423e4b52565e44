package host

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// A collection costs CPU by what is alive, here mostly the store's cache, which
// hardly changes from one to the next. By Go's default (100) every eighth
// cycle of a busy host's CPU goes into marking the same objects again. So
// garbage may grow to four times what is alive, as long as memory is plenty:
// beyond half of it Go collects as often as it must to stay below, where the
// default would go on to the end of the machine.
const (
	garbagePercent = 400
	memoryShare    = 2
)

// tuneGC lets garbage lie until undo. An operator who sets GOGC or
// GOMEMLIMIT decides it instead.
func tuneGC() (undo func()) {
	limit := memoryIn(os.DirFS("/"))
	if !tunes(limit) {
		return func() {}
	}
	percent := debug.SetGCPercent(garbagePercent)
	memory := debug.SetMemoryLimit(limit / memoryShare)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(memory)
	}
}

// tunes says whether the host decides how Go collects on a machine of that much
// memory, and not Go or an operator.
func tunes(memory int64) bool {
	return os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" && memory != math.MaxInt64
}

// Of the machine's memory Go's heap may have half, the guests a quarter; the rest
// is for compile children, the page cache and whoever else is on the machine. Less
// than LeastGuestMemory is no bound to set: in a cluster of 5,000 nodes the built-in
// policies take 47 MiB.
const (
	guestShare       = 4
	LeastGuestMemory = 64 << 20
	unknownMemory    = 4 << 30 // of a machine that does not tell
)

// guestMemory is how much memory all guests may have together.
func (c *Config) guestMemory() int64 {
	if c.GuestMemory > 0 {
		return c.GuestMemory
	}
	return guestMemoryOf(memoryIn(os.DirFS("/")))
}

func guestMemoryOf(memory int64) int64 {
	if memory == math.MaxInt64 {
		memory = unknownMemory
	}
	return max(memory/guestShare, LeastGuestMemory)
}

// memoryIn reads what this process may use: the machine's memory, or less if a
// cgroup above it says so; MaxInt64 if the system does not tell.
func memoryIn(root fs.FS) int64 {
	memory := int64(math.MaxInt64)
	info, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return memory
	}
	for line := range strings.Lines(string(info)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 53); err == nil && kib > 0 {
				memory = kib << 10
			}
		}
	}
	own, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return memory
	}
	for line := range strings.Lines(string(own)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case controllers == "":
			memory = min(memory, limitIn(root, "sys/fs/cgroup", group, "memory.max"))
		case slices.Contains(strings.Split(controllers, ","), "memory"): // the first version of cgroups
			memory = min(memory, limitIn(root, "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
		}
	}
	return memory
}

// limitIn is the least that a cgroup or one above it may use, by such files.
func limitIn(root fs.FS, tree, group, file string) int64 {
	least := int64(math.MaxInt64)
	for dir := path.Join(tree, group); strings.HasPrefix(dir, tree); dir = path.Dir(dir) {
		text, err := fs.ReadFile(root, path.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the root has none
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
			least = min(least, limit)
		}
	}
	return least
}
