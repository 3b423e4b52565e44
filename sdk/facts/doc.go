// Package facts is what a host tells a policy: pods, their terms and selectors,
// taints, conditions and the objects of the cluster, decoded from the ABI's records.
//
// Strings are symbols of one table: equal strings have equal symbols, so that a
// comparison is one of integers, and a pod like one seen before decodes without
// allocating. What is handed out is valid during the call that gives it, but for
// objects; Clone what is to stay.
package facts
