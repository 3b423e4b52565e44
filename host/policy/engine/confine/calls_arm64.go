package confine

import "syscall"

const (
	callArch    = 0xc00000b7 // AUDIT_ARCH_AARCH64
	callSeccomp = 277
	callPrlimit = syscall.SYS_PRLIMIT64
)

// compilerCalls are what Go's runtime, the C library's threads and the compiler
// call, those first that are called most.
var compilerCalls = []uint32{
	syscall.SYS_FUTEX, syscall.SYS_READ, syscall.SYS_WRITE, syscall.SYS_MADVISE, syscall.SYS_MMAP, syscall.SYS_MUNMAP,
	syscall.SYS_MPROTECT, syscall.SYS_BRK, syscall.SYS_MREMAP, syscall.SYS_MINCORE,
	syscall.SYS_NANOSLEEP, syscall.SYS_CLOCK_NANOSLEEP, syscall.SYS_CLOCK_GETTIME, syscall.SYS_SCHED_YIELD,
	syscall.SYS_RT_SIGACTION, syscall.SYS_RT_SIGPROCMASK, syscall.SYS_RT_SIGRETURN, syscall.SYS_SIGALTSTACK, syscall.SYS_RESTART_SYSCALL,
	syscall.SYS_GETPID, syscall.SYS_GETTID, syscall.SYS_GETUID, syscall.SYS_UNAME, syscall.SYS_GETCWD, syscall.SYS_SCHED_GETAFFINITY,
	syscall.SYS_SETITIMER, syscall.SYS_TIMER_CREATE, syscall.SYS_TIMER_SETTIME, syscall.SYS_TIMER_DELETE,
	syscall.SYS_EPOLL_CREATE1, syscall.SYS_EPOLL_CTL, syscall.SYS_EPOLL_PWAIT, syscall.SYS_EVENTFD2, syscall.SYS_PIPE2,
	syscall.SYS_OPENAT, syscall.SYS_CLOSE, syscall.SYS_FSTAT, syscall.SYS_FSTATAT, syscall.SYS_LSEEK, syscall.SYS_GETDENTS64,
	syscall.SYS_PREAD64, syscall.SYS_PWRITE64, syscall.SYS_FSYNC, syscall.SYS_FTRUNCATE, syscall.SYS_READLINKAT, syscall.SYS_FACCESSAT,
	syscall.SYS_MKDIRAT, syscall.SYS_RENAMEAT, syscall.SYS_UNLINKAT,
	syscall.SYS_SET_ROBUST_LIST, syscall.SYS_EXIT, syscall.SYS_EXIT_GROUP,
	278, // getrandom
	293, // rseq
}
