// Package policy works out what NetworkPolicies let the pods of a node do:
// objects in, forward.Filter out. It is pure: who follows the API and who talks
// to the kernel are above it.
//
// A peer of a rule is a selection: of pods by labels and namespace. Selections
// that are equal are one set, whoever names them, and only those exist that a
// pod of this node needs. A pod that changes touches the sets that it enters or
// leaves, and no others.
//
// The rules are the API's: a pod that no policy selects in a direction may do
// everything in it; one that some select may do what any of them allows. What
// runs in the network of its node is neither selected nor a peer.
package policy
