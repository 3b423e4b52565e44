// Package placed counts the pods that are on nodes, by parts of a topology, for
// policies that ask how many pods of some kind share a zone or a node.
//
// Pods that are alike to the policy (namespace, labels, and the terms that it
// carries over) are one class. Each row holds numbers of classes. A Tally counts
// for one question, by the values of one topology key, and follows each pod
// that comes or goes and each row whose labels change; so an answer costs
// nothing but a look at the tally. There are two sorts of questions:
//
//   - Matching: how many pods meet all these terms? Such tallies are made when
//     they are first asked for, and the least recently asked for go first.
//   - Carried: which placed pods carry terms that this pod meets? Such tallies
//     live as long as pods that carry the term.
//
// Counts stay true under what-if questions, since each change of a row or a pod
// is undone by its opposite.
package placed
