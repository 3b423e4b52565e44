package confine

import "syscall"

const (
	callArch    = 0xc000003e // AUDIT_ARCH_X86_64
	callSeccomp = 317
	callPrlimit = syscall.SYS_PRLIMIT64
)

// ownCalls are those of compilerCalls that only this processor has, or that
// package syscall lacks.
var ownCalls = []uint32{
	syscall.SYS_ARCH_PRCTL,
	318, // getrandom
	334, // rseq
}
