// ptrace for Debian's user-mode Linux 6.1, which keeps 2,696 bytes of a process's
// vector registers: those of processors with AMX take 11,008, and the machine's
// kernel takes all or none. The rest is given as it is.
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// A stack of user-mode Linux has no room for it. Only one thread traces.
static char state[1 << 16];

long ptrace(enum __ptrace_request request, ...) {
	va_list rest;
	va_start(rest, request);
	long pid = va_arg(rest, int);
	void *addr = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);

	if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
		long word;
		return syscall(SYS_ptrace, request, pid, addr, &word) < 0 ? -1 : word;
	}
	if (request == PTRACE_SETREGSET && addr == (void *)NT_X86_XSTATE) {
		struct iovec *given = data, whole = {state, sizeof state};
		if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, addr, &whole) == 0 && whole.iov_len > given->iov_len) {
			memcpy(state, given->iov_base, given->iov_len);
			return syscall(SYS_ptrace, request, pid, addr, &whole);
		}
	}
	return syscall(SYS_ptrace, request, pid, addr, data);
}
