package main

import (
	"runtime"
	"syscall"
	"time"
)

// used is what the process has used since it began.
type used struct {
	cpu           time.Duration
	allocs, bytes uint64
}

// use reads it. CPU time, unlike wall-clock time, tells the same on a machine
// that does other work too.
func use() used {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // fails for a bad argument only
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return used{
		cpu:    time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		allocs: mem.Mallocs, bytes: mem.TotalAlloc,
	}
}
