package framework

import "github.com/berth-dev/berth/abi"

// Remembered says whether a policy's answers about a row stand until a group
// that it reads changes there. What reads the cluster or the time is asked anew.
func (i *Info) Cacheable() bool {
	return i.Scope == abi.ScopeRow && i.Reads&(abi.ClusterGroups|abi.Time) == 0
}
