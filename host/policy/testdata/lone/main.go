// Command lone is one priority with a mistake that people make: for a compiler
// all of it is one function with what called it, and with what it calls.
package main

import (
	"strconv"

	"github.com/berth-dev/berth/sdk"
)

var prices = []int64{3, 5, 8}

type lone struct{}

func (lone) Score(_ *sdk.Pod, node *sdk.Node) int64 {
	class, err := strconv.ParseInt(node.Annotation("class"), 10, 64)
	if err != nil || node.HasLabel("free") {
		return 0
	}
	return -prices[class] // of which there are fewer than classes
}

func init() { sdk.Priority("Lone", lone{}, sdk.Reads(sdk.NodeLabels|sdk.NodeAnnotations)) }

func main() {}
