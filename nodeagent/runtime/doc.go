// Package runtime is the seam between the node agent and what runs containers.
//
// A sandbox is a pod's namespaces, held by a pause process; containers live in
// it. The agent decides what runs; an implementation only runs it, and shows
// what there is. Everything needed to pick pods up again after the agent's
// restart comes back from List: the implementation stores Meta with the
// container, for instance as labels.
//
// Implementations keep true:
//   - Stop and Remove are idempotent: what is absent is stopped and removed.
//   - An id is never used twice.
//   - Containers go on when the agent's process ends, and their output goes on
//     to their log files.
//   - Each method may be called from many goroutines at once.
//
// The suite in runtimetest holds for the fake and for the real one.
package runtime
