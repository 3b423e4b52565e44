// Package spread counts, for a pod's topology spread constraints, the pods that
// meet a constraint by the parts of its topology. It serves the predicate and
// the priorities that spread pods.
//
// Pods count that are in the pod's namespace, are not terminating and meet the
// constraint's selector; an empty selector counts none. Nodes count that have
// all the constraints' topology keys, if those are asked for, and that the pod's
// node affinity (nodeAffinityPolicy, Honor by default) and taints that it does
// not tolerate (nodeTaintsPolicy, Ignore by default) do not keep it off. Where
// every node counts, the standing tallies are the answer; else the rows are
// walked once a cycle.
//
// Source: kube-scheduler 1.36, plugin PodTopologySpread.
package spread
