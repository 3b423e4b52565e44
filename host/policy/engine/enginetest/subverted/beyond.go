package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"
)

// beyond tries to live on without the host, to reach other processes and
// machines, and to have more than its limits, and says which of it it may.
func beyond() string {
	host := uintptr(os.Getppid())
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CPU, &most); err != nil {
		return err.Error()
	}
	most.Max++ // which root may
	tcp, dial := net.Listen("tcp", "127.0.0.1:0")
	if dial == nil {
		tcp.Close()
	}
	ways := map[string]error{
		"fork":                    parted(syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)),
		"start a program":         exec.Command("/proc/self/exe").Start(),
		"become a program":        syscall.Exec("/proc/self/exe", []string{"subverted", "nothing"}, nil),
		"have its own session":    call(syscall.SYS_SETSID, 0, 0, 0),
		"leave its group":         call(syscall.SYS_SETPGID, 0, 0, 0),
		"outlive the host":        call(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, 0, 0),
		"go first again":          call(syscall.SYS_SETPRIORITY, syscall.PRIO_PROCESS, 0, 0),
		"raise a limit":           call(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_CPU, uintptr(unsafe.Pointer(&most))),
		"lower the host's limit":  call(syscall.SYS_PRLIMIT64, host, syscall.RLIMIT_CPU, uintptr(unsafe.Pointer(&most))),
		"listen":                  dial,
		"have a socket":           call(syscall.SYS_SOCKET, syscall.AF_INET, syscall.SOCK_DGRAM, 0),
		"have sockets":            call(syscall.SYS_SOCKET, syscall.AF_UNIX, syscall.SOCK_STREAM, 0),
		"trace the host":          call(syscall.SYS_PTRACE, syscall.PTRACE_ATTACH, host, 0),
		"signal the host":         call(syscall.SYS_KILL, host, 0, 0),
		"signal its group":        call(syscall.SYS_KILL, 0, 0, 0),
		"signal the host's group": call(syscall.SYS_KILL, -host, 0, 0),
		"have signals sent":       call(syscall.SYS_FCNTL, 0, syscall.F_SETOWN, host),
		"have a filesystem":       call(syscall.SYS_UNSHARE, syscall.CLONE_NEWNS, 0, 0),
		"own a file's mode":       os.Chmod(".", 0o777),
	}
	// Landlock would refuse these too, and a filesystem others.
	for what, err := range map[string]error{
		"make a file":   os.WriteFile("more", nil, 0o600),
		"make a folder": os.Mkdir("folder", 0o700),
		"make a link":   os.Symlink("/", "way"),
		"remove a file": os.Remove("more"),
		"move a file":   os.Rename("more", "most"),
	} {
		if ways[what] = err; !errors.Is(err, syscall.ENOSYS) {
			ways[what] = nil
		}
	}
	done := make(chan int)
	go func() { time.Sleep(time.Millisecond); close(done) }() // an honest one's threads still run
	<-done
	return mayDo(ways)
}

func call(number, a, b, c uintptr) error {
	if _, _, e := syscall.RawSyscall(number, a, b, c); e != 0 {
		return e
	}
	return nil
}

// parted ends the process that a fork began, and says if there was one.
func parted(pid, _ uintptr, e syscall.Errno) error {
	switch {
	case e != 0:
		return e
	case pid == 0:
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}
