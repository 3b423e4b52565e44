// Package isolation makes NetworkPolicies hold on this machine: it follows them,
// namespaces and the pods of the whole cluster, has nodeagent/policy work out what
// they allow, and the kernel carry it out.
//
// Of others' pods it is told labels, addresses and named ports, line by line, and
// no more. A pod of this machine gets its network only when the kernel has the
// rules for it: none of its packets is sent before.
package isolation
