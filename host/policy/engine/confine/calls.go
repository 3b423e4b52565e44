package confine

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// What the kernel's classic BPF is made of, and what a filter may answer.
const (
	bpfLoad   = 0x20 // the word at k
	bpfIfSame = 0x15
	bpfIfBits = 0x45
	bpfAnswer = 0x06

	answerKill  = 0x80000000
	answerAllow = 0x7fff0000
	answerErrno = 0x00050000
)

// Where a filter finds what it decides by, in Linux's struct seccomp_data. Both
// processors keep the lower half of an argument first.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16
)

func argument(i uint32) (low, high uint32) { return dataArgs + 8*i, dataArgs + 8*i + 4 }

// step is Linux's struct sock_filter: where a test holds, yes steps are passed
// over, or else no.
type step struct {
	code    uint16
	yes, no uint8
	k       uint32
}

// test is a word of a call's arguments and what must hold of it.
type test struct {
	at   uint32
	code uint16
	k    uint32
}

// compilerCalls are what Go's runtime, the C library's threads and the compiler
// call, those first that are called most. None of them opens or makes a file.
var compilerCalls = append([]uint32{
	syscall.SYS_FUTEX, syscall.SYS_READ, syscall.SYS_WRITE, syscall.SYS_MADVISE, syscall.SYS_MMAP, syscall.SYS_MUNMAP,
	syscall.SYS_MPROTECT, syscall.SYS_BRK, syscall.SYS_MREMAP, syscall.SYS_MINCORE,
	syscall.SYS_NANOSLEEP, syscall.SYS_CLOCK_NANOSLEEP, syscall.SYS_CLOCK_GETTIME, syscall.SYS_SCHED_YIELD,
	syscall.SYS_RT_SIGACTION, syscall.SYS_RT_SIGPROCMASK, syscall.SYS_RT_SIGRETURN, syscall.SYS_SIGALTSTACK, syscall.SYS_RESTART_SYSCALL,
	syscall.SYS_GETPID, syscall.SYS_GETTID, syscall.SYS_GETUID, syscall.SYS_UNAME, syscall.SYS_SCHED_GETAFFINITY,
	syscall.SYS_SETITIMER, syscall.SYS_TIMER_CREATE, syscall.SYS_TIMER_SETTIME, syscall.SYS_TIMER_DELETE,
	syscall.SYS_EPOLL_CREATE1, syscall.SYS_EPOLL_CTL, syscall.SYS_EPOLL_PWAIT, syscall.SYS_EVENTFD2, syscall.SYS_PIPE2,
	syscall.SYS_CLOSE, syscall.SYS_FSTAT, syscall.SYS_LSEEK, syscall.SYS_PREAD64,
	syscall.SYS_SET_ROBUST_LIST, syscall.SYS_EXIT, syscall.SYS_EXIT_GROUP,
}, ownCalls...)

// filter lets a process make those calls of the kernel that a compiler needs,
// and no others: it may have threads, but start no process and become no other
// program, leave neither its group nor its session, open no file and no socket,
// reach no process but itself, and raise no limit. What it may not do is not there.
func filter(process uint32) []step {
	const threads = 0x00010000 // CLONE_THREAD
	f := []step{
		{bpfLoad, 0, 0, dataArch}, {bpfIfSame, 1, 0, callArch}, {bpfAnswer, 0, 0, answerKill},
		{bpfLoad, 0, 0, dataNumber},
	}
	for _, call := range compilerCalls {
		f = when(f, call)
	}
	first, _ := argument(0)
	command, _ := argument(1)
	limit, limitHigh := argument(2) // the address of a new one
	f = when(f, syscall.SYS_CLONE, test{first, bpfIfBits, threads})
	f = when(f, syscall.SYS_KILL, test{first, bpfIfSame, process})
	f = when(f, syscall.SYS_TGKILL, test{first, bpfIfSame, process})
	f = when(f, callPrlimit, test{limit, bpfIfSame, 0}, test{limitHigh, bpfIfSame, 0})
	for _, c := range []uint32{syscall.F_GETFD, syscall.F_SETFD, syscall.F_GETFL, syscall.F_SETFL, syscall.F_DUPFD_CLOEXEC} {
		f = when(f, syscall.SYS_FCNTL, test{command, bpfIfSame, c})
	}
	return append(f, step{bpfAnswer, 0, 0, answerErrno | uint32(syscall.ENOSYS)})
}

// when allows a call of which all tests hold.
func when(f []step, call uint32, tests ...test) []step {
	rest := uint8(2 * len(tests))
	if rest == 0 {
		return append(f, step{bpfIfSame, 0, 1, call}, step{bpfAnswer, 0, 0, answerAllow})
	}
	f = append(f, step{bpfIfSame, 0, rest + 2, call})
	for _, t := range tests {
		rest -= 2
		f = append(f, step{bpfLoad, 0, 0, t.at}, step{t.code, 0, rest + 1, t.k})
	}
	return append(f, step{bpfAnswer, 0, 0, answerAllow}, step{bpfLoad, 0, 0, dataNumber})
}

// giveUpCalls takes from all threads of this process, for good, the calls of the
// kernel that a compiler does without. A kernel without seccomp leaves it all.
func giveUpCalls() error {
	const setFilter, allThreads = 1, 1
	if callSeccomp == 0 {
		return nil
	}
	f := filter(uint32(os.Getpid()))
	program := struct {
		n     uint16
		steps *step
	}{uint16(len(f)), &f[0]}
	thread, _, e := syscall.Syscall(callSeccomp, setFilter, allThreads, uintptr(unsafe.Pointer(&program)))
	switch {
	case e == syscall.ENOSYS || e == syscall.EINVAL:
		return nil
	case e != 0:
		return fmt.Errorf("give up calls of the kernel: %w", e)
	case thread != 0:
		return fmt.Errorf("give up calls of the kernel: thread %d cannot", thread)
	}
	return nil
}

// Seccomp says whether this kernel can take calls from a process.
func Seccomp() bool {
	const askAction = 2
	kill := uint32(answerKill)
	if callSeccomp == 0 {
		return false
	}
	_, _, e := syscall.Syscall(callSeccomp, askAction, 0, uintptr(unsafe.Pointer(&kill)))
	return e == 0
}
