// Package equal is the priority EqualPriority: one for each node, so that no
// node is preferred.
//
// Source: the classic scheduler (Kubernetes 1.14).
package equal

import "github.com/berth-dev/berth/sdk"

func init() {
	sdk.Priority("EqualPriority", equal{}, sdk.Describe("One for each node."), sdk.Reads(0))
}

type equal struct{}

func (equal) Score(*sdk.Pod, *sdk.Node) int64 { return 1 }
