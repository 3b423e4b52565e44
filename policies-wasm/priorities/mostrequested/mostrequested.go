// Package mostrequested is the priority MostRequestedPriority: the fuller the
// node would be with the pod on it, the higher.
//
// For each resource 100 · requested / allocatable in integers, 100 where it
// would be overcommitted; the weighted mean over the resources that the node
// has. CPU and memory count with Kubernetes' defaults for containers that
// request nothing.
//
// Source: kube-scheduler 1.36, NodeResourcesFit with MostAllocated.
package mostrequested

import "github.com/berth-dev/berth/policies-wasm/priorities/allocation"

func init() {
	allocation.Register("MostRequestedPriority",
		"The fuller the node would be, the higher.", formula{})
}

type formula struct{ allocation.Weighted }

func (formula) Score(requested, allocatable int64) int64 {
	return allocation.Percent(min(requested, allocatable), allocatable)
}
