// Package confine takes from a process what a compiler does not need: memory and
// time without end, new privileges, every file but those that it has open, and
// most calls of the kernel. It also lets others go first.
package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"
)

// Limits are what a confined process may use.
type Limits struct {
	Memory uint64 // bytes of address space
	CPU    uint64 // seconds
	File   uint64 // bytes of one file
	Files  uint64 // open at once
	Nice   int    // how far it stands back behind others: 0 not at all, 19 at most
	Calls  bool   // all calls of the kernel
}

// Child are the limits of a compile child.
var Child = Limits{Memory: 4 << 30, CPU: 30, File: 256 << 20, Files: 64, Nice: 10}

// Numbers of Linux that package syscall lacks.
const (
	prSetNoNewPrivs  = 38
	sysLandlockNew   = 444
	sysLandlockRule  = 445
	sysLandlockApply = 446
	landlockBeneath  = 1
	oPath            = 0x200000

	landlockExecute  = 1 << 0
	landlockReadFile = 1 << 2
	landlockReadDir  = 1 << 3
	landlockAllV1    = 1<<13 - 1
)

// handled is Linux's struct landlock_ruleset_attr: what is forbidden unless a
// rule allows it.
type handled struct{ files, network, scopes uint64 }

// Landlock is the version of Landlock that this kernel has, 0 for none.
func Landlock() int {
	const askVersion = 1
	version, _, e := syscall.Syscall(sysLandlockNew, 0, 0, askVersion)
	if e != 0 {
		return 0
	}
	return int(version)
}

// everything is all that this kernel's Landlock can forbid and a compiler does
// without; of the network that is to bind and to connect by TCP. Before version
// 7, scoped signals get lost between Go's own threads.
func everything(version int) handled {
	const refer, truncate, ioctl = 1 << 13, 1 << 14, 1 << 15
	h := handled{files: landlockAllV1}
	for _, more := range []struct {
		since int
		handled
	}{
		{2, handled{files: refer}}, {3, handled{files: truncate}}, {5, handled{files: ioctl}},
		{4, handled{network: 1<<2 - 1}},
		{7, handled{scopes: 1<<2 - 1}}, // to reach others' abstract sockets, and to signal them
	} {
		if version >= more.since {
			h.files, h.network, h.scopes = h.files|more.files, h.network|more.network, h.scopes|more.scopes
		}
	}
	return h
}

// Self confines this process to limits and to the files that it has open: more
// files than one would be more than a limit of each. A kernel without Landlock
// or seccomp gives the rest. A binary with cgo becomes itself
// once more, with those arguments, and calls Rest then.
func (l Limits) Self(again ...string) error {
	if err := l.resources(); err != nil {
		return err
	}
	if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0); e == syscall.ENOTSUP {
		return l.byExec(again)
	} else if e != 0 {
		return fmt.Errorf("give up new privileges: %w", e)
	}
	if nice := l.behind(); nice > 0 {
		if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_SETPRIORITY, syscall.PRIO_PROCESS, 0, uintptr(nice)); e != 0 {
			return fmt.Errorf("let others go first: %w", e)
		}
	}
	rules, err := landlock()
	if err != nil {
		return err
	}
	if rules >= 0 {
		defer syscall.Close(rules)
		if _, _, e := syscall.AllThreadsSyscall(sysLandlockApply, uintptr(rules), 0, 0); e != 0 {
			return fmt.Errorf("confine to open files: %w", e)
		}
	}
	return l.Rest()
}

// Rest is what of Self is left to do in the program that Self became.
func (l Limits) Rest() error {
	if l.Calls {
		return nil
	}
	return giveUpCalls()
}

// behind is the niceness to take on, 0 for none: that of a process which stands
// further back already stays.
func (l Limits) behind() int {
	const zero = 20 // the kernel answers 20 less the niceness
	have, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil || zero-have >= l.Nice {
		return 0
	}
	return l.Nice
}

// ThisBinary is the program of this process, whatever lies in its place by now:
// an upgrade replaces the file of a host that goes on.
const ThisBinary = "/proc/self/exe"

// byExec serves binaries with cgo, whose threads cannot all be reached: what one
// thread gives up, the program that it becomes lacks in all threads.
func (l Limits) byExec(arguments []string) error {
	runtime.LockOSThread()
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0); e != 0 {
		return fmt.Errorf("give up new privileges: %w", e)
	}
	if nice := l.behind(); nice > 0 {
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice); err != nil {
			return fmt.Errorf("let others go first: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	rules, err := landlock(filepath.Dir(self), "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/proc")
	if err != nil {
		return err
	}
	if rules >= 0 {
		if _, _, e := syscall.RawSyscall(sysLandlockApply, uintptr(rules), 0, 0); e != 0 {
			return fmt.Errorf("confine to open files: %w", e)
		}
		syscall.CloseOnExec(rules)
	}
	return syscall.Exec(ThisBinary, append([]string{self}, arguments...), os.Environ())
}

func (l Limits) resources() error {
	const rlimitNoFile, rlimitAS = 7, 9
	limits := map[int]uint64{syscall.RLIMIT_CPU: l.CPU, syscall.RLIMIT_FSIZE: l.File, syscall.RLIMIT_CORE: 0, rlimitNoFile: l.Files}
	if !raceEnabled { // the race detector maps terabytes
		limits[rlimitAS] = l.Memory
	}
	for what, most := range limits {
		if err := lower(what, most); err != nil {
			return fmt.Errorf("limit resource %d: %w", what, err)
		}
	}
	return nil
}

// lower sets a limit, or leaves one that is lower: raising it takes a privilege.
func lower(what int, most uint64) error {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(what, &have); err != nil {
		return err
	}
	most = min(most, have.Max)
	return syscall.Setrlimit(what, &syscall.Rlimit{Cur: most, Max: most})
}

// landlock makes a rule set: reading below those folders, and nothing else. It is
// below zero where the kernel knows no Landlock.
func landlock(readable ...string) (int, error) {
	all := everything(Landlock())
	fd, _, e := syscall.Syscall(sysLandlockNew, uintptr(unsafe.Pointer(&all)), unsafe.Sizeof(all), 0)
	if errors.Is(e, syscall.ENOSYS) || errors.Is(e, syscall.EOPNOTSUPP) {
		return -1, nil
	}
	if e != 0 {
		return -1, fmt.Errorf("make a Landlock rule set: %w", e)
	}
	rules := int(fd)
	for _, path := range readable {
		err := landlockAllow(rules, path, landlockExecute|landlockReadFile|landlockReadDir)
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return -1, err
		}
	}
	return rules, nil
}

func landlockAllow(rules int, path string, access uint64) error {
	fd, err := syscall.Open(path, oPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	// The kernel's struct is packed: 8 bytes of rights, 4 of file descriptor.
	var rule [12]byte
	*(*uint64)(unsafe.Pointer(&rule[0])) = access
	*(*int32)(unsafe.Pointer(&rule[8])) = int32(fd)
	_, _, e := syscall.Syscall6(sysLandlockRule, uintptr(rules), landlockBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return fmt.Errorf("allow %s: %w", path, e)
	}
	return nil
}
