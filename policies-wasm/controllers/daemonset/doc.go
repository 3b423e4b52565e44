// Package daemonset is the controller DaemonSet: it keeps one pod on each node
// that its template fits.
//
// A node fits by node name, node selector and required node affinity, and if the
// pod tolerates its taints NoSchedule and NoExecute; pods of a DaemonSet
// tolerate those that tell of a node's state besides. A pod stays where it does
// not tolerate NoSchedule. Pods are made for their node by a node affinity of
// metadata.name, and the scheduler binds them.
//
// With RollingUpdate, pods of older templates are taken away as far as
// maxUnavailable lets them, or, with maxSurge, when one of the new template is
// available beside them; with OnDelete nobody but the user takes them away. Each
// template that the set has is kept as a ControllerRevision.
//
// A pod that failed is replaced at once the first time, then after 1 s, 2 s, 4 s
// and so on since it was made, 15 minutes at most. The replacement's annotation
// berth.dev/failures says how many there were; kube-controller-manager keeps
// that in memory, and forgets it with its process.
//
// Source: kube-controller-manager 1.36, pkg/controller/daemon.
package daemonset
