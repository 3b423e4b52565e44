package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"
)

// Limits of a compile child.
const (
	childMemory = 4 << 30
	childCPU    = 30 // seconds
	childFile   = 512 << 20
	childFiles  = 64
)

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

// confine takes from this process all that a compiler does not need: memory and
// time without end, new privileges, and every file outside of its folder. A
// kernel without Landlock gives the rest.
func confine() error {
	if err := limitResources(); err != nil {
		return err
	}
	if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0); e == syscall.ENOTSUP {
		return confineByExec()
	} else if e != 0 {
		return fmt.Errorf("give up new privileges: %w", e)
	}
	rules, err := landlock(".")
	if rules < 0 {
		return err
	}
	defer syscall.Close(rules)
	if _, _, e := syscall.AllThreadsSyscall(sysLandlockApply, uintptr(rules), 0, 0); e != 0 {
		return fmt.Errorf("confine to one folder: %w", e)
	}
	return nil
}

// confineByExec serves binaries with cgo, whose threads cannot all be reached:
// what one thread gives up, the program that it becomes lacks in all threads.
func confineByExec() error {
	runtime.LockOSThread()
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0); e != 0 {
		return fmt.Errorf("give up new privileges: %w", e)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	rules, err := landlock(".", filepath.Dir(self), "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/proc")
	if err != nil {
		return err
	}
	if rules >= 0 {
		if _, _, e := syscall.RawSyscall(sysLandlockApply, uintptr(rules), 0, 0); e != 0 {
			return fmt.Errorf("confine to one folder: %w", e)
		}
		syscall.CloseOnExec(rules)
	}
	return syscall.Exec(self, []string{self, childName, "confined"}, []string{})
}

func limitResources() error {
	const rlimitNoFile, rlimitAS = 7, 9
	limits := []struct {
		what int
		most uint64
	}{{syscall.RLIMIT_CPU, childCPU}, {syscall.RLIMIT_FSIZE, childFile}, {syscall.RLIMIT_CORE, 0}, {rlimitNoFile, childFiles}}
	if !raceEnabled { // the race detector maps terabytes
		limits = append(limits, struct {
			what int
			most uint64
		}{rlimitAS, childMemory})
	}
	for _, l := range limits {
		if err := syscall.Setrlimit(l.what, &syscall.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limit resource %d: %w", l.what, err)
		}
	}
	return nil
}

// landlock makes a rule set: all of the first folder, reading of the others. It
// is below zero where the kernel knows no Landlock.
func landlock(writable string, readable ...string) (int, error) {
	handled := uint64(landlockAllV1)
	fd, _, e := syscall.Syscall(sysLandlockNew, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errors.Is(e, syscall.ENOSYS) || errors.Is(e, syscall.EOPNOTSUPP) {
		return -1, nil
	}
	if e != 0 {
		return -1, fmt.Errorf("make a Landlock rule set: %w", e)
	}
	rules := int(fd)
	if err := landlockAllow(rules, writable, landlockAllV1); err != nil {
		return -1, err
	}
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
