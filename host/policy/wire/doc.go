// Package wire writes what guests are given: deltas of the snapshot, pods,
// rows, what-if questions, and the inputs of gates and controllers, each cut
// down to the groups that a guest reads. Guests that read the same groups can
// be given the same bytes.
//
// An Encoder owns its buffers and gives them out again: what a method returns
// is valid until the next call, and one goroutine uses an Encoder at a time.
// After the first calls, a change of a node's usage is encoded without
// allocating.
package wire
