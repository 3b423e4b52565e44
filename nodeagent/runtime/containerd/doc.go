// Package containerd runs pods by containerd and runc.
//
// A sandbox is a container of its own: the pause program, which holds the
// namespaces; the other containers of the pod join them and share its shim.
// What the agent must find again after a restart lies with each container: a
// record that never changes (an extension) and what happened to it since
// (labels). Nothing is kept in memory that containerd does not know.
//
//	created ──StartContainer──► running ──exit──► settled
//	(no task)                   (task)            (labels say code and time, no task)
//
// Settling an exit means: find out whether it ran out of memory, write that
// and the code down, wait for the last of its output, delete the task. It is
// done once, by whoever notices first: the watch on events, a Stop, a List.
//
// # Notes
//
// The package needs root. Everything lies below the two folders of its Config,
// so several agents can run on one machine.
package containerd
