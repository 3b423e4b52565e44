// Package schedule places pods. Scheduler is the part that has goroutines, a
// clock and I/O; what it runs is pure and lies below:
//
//	snapshot  the cluster in fixed slots, and the log of its changes
//	queue     the pods that have no node yet
//	profile   what a predicate and a priority are; the live set of them
//	cycle     one decision: columns, classes, pick, preemption
//	score     0…100 from raw scores
//	volumes   which volume a claim gets, reserved until it is bound
//	core.go   all of these together: events in, decisions out
//	binding   reads and writes a store for it
//
// It knows no WebAssembly: a policy is a small interface.
package schedule
