// Package leastrequested is the priority LeastRequestedPriority: the more of
// the node would be left free with the pod on it, the higher.
//
// For each resource 100 · (allocatable − requested) / allocatable in integers,
// 0 where it would be overcommitted; the weighted mean over the resources that
// the node has. CPU and memory count with Kubernetes' defaults for containers
// that request nothing.
//
// Source: kube-scheduler 1.36, NodeResourcesFit with LeastAllocated.
package leastrequested

import (
	"github.com/berth-dev/berth/policies-wasm/priorities/allocation"
)

func init() {
	allocation.Register("LeastRequestedPriority",
		"The more of the node would be left free, the higher.", formula{})
}

type formula struct{ allocation.Weighted }

func (formula) Score(requested, allocatable int64) int64 {
	if requested > allocatable {
		return 0
	}
	return allocation.Percent(allocatable-requested, allocatable)
}
