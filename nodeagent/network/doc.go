// Package network is the seam between the node agent and what connects pods.
//
// Add makes a network namespace and connects it; the runtime then puts the
// pod's processes into it by its path. Pods that use the machine's own network
// never come here.
//
// Implementations keep true: Del is idempotent and works from the id alone,
// also after the agent's restart and after a half-done Add; an address is
// given to one pod at a time; after a failed Add nothing is left.
package network
