// Package dns answers names for the pods of one machine: those of the cluster
// by the Kubernetes DNS specification 1.1.0, all others from the machine's own
// resolvers, through a cache.
//
//	           ┌── cluster.local, reverse ── Index ◄── Services, EndpointSlices
//	pod ── query
//	           └── all others ── cache ── forwarder ──► /etc/resolv.conf's servers
//
// A name of the cluster is one look-up, done by the goroutine that reads from
// the socket: no query waits there. What has to wait (other servers, the search
// path of a pod, names of ExternalName services) gets a goroutine of its own,
// and of these there are [maxWaiting] at most, [waitOfOne] of one client.
//
// # Notes
//
// A name that pods look for by their search path is looked for here: the answer
// to the path's first name is that of the first one which exists, after a CNAME
// to it, so that an external name takes one query. It is done for pods that have
// the resolv.conf which the agent writes unless told otherwise. Nobody can tell such
// a question from one for the whole name, so what a Service of the pod's namespace
// may be called (one label), and what lies below one that there is, is denied at
// once: the pod goes on by its path itself.
//
// Names below pod.cluster.local are answered for any address in any namespace, as
// the specification asks (the "insecure" of CoreDNS): they say nothing of whether
// a pod has it.
//
// # Refusals
//
// ANY, zone transfers, updates, notifications and classes other than IN are
// refused. Names of the cluster, and addresses of its ranges, are never asked of
// other servers.
package dns
