// Package guest is the full face of the SDK, and the instance behind all faces.
//
// A Policy, for Register, is asked in batches: a BatchFilterer or BatchScorer sees
// the pod once a cycle and answers for many rows of a row.Table at once.
// RowFollower tells of policies that depend on more than one row. Most policies
// are better off with the simple faces of package sdk, which are built on this one.
//
// Instance is one opened policy. Its methods are the exports of the ABI, which
// this package makes where it is built for wasip1.
package guest
