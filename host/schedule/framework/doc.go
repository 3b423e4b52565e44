// Package framework is the seam between the scheduling engine and whatever
// answers its questions: what a predicate and a priority are, the table of
// reasons that they share, and the immutable set of them that a cycle holds.
// It knows no WebAssembly.
package framework
