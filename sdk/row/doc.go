// Package row is the table of nodes that a policy is told of: one row a node, at a
// slot that stays its own while the node lives. Facts lie in columns by slot, for
// policies that go over all rows; Node is one row's view, for those that judge one
// node at a time; NodeMatcher judges rows by node selectors and affinity.
//
// A Table has the groups of facts that the policy reads, and nothing of the others.
// It is written by the instance of package guest alone.
package row
