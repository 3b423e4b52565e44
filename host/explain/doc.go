// Package explain tells why a pod is where it is, why it is not somewhere
// else, and where pods would go. Nothing of that is stored: it is derived
// again, from a decision's trace and the log of the cluster's changes, or from
// the present state for a pod that waits.
package explain
