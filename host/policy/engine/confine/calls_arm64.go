package confine

import "syscall"

const (
	callArch    = 0xc00000b7 // AUDIT_ARCH_AARCH64
	callSeccomp = 277
	callPrlimit = syscall.SYS_PRLIMIT64
)

// ownCalls are those of compilerCalls that package syscall lacks.
var ownCalls = []uint32{
	278, // getrandom
	293, // rseq
}
