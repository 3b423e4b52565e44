// Command gpu-packing fills GPU nodes one after the other, so that whole nodes
// stay free for large jobs, and leads pods without GPUs to other nodes.
package main

import "github.com/berth-dev/berth/sdk"

type gpuPacking struct{ resource string }

func (g *gpuPacking) Configure(c sdk.Config) error {
	g.resource = c.String("resource", "nvidia.com/gpu")
	return c.OnlyKeys("resource")
}

// Score is the share of the node's GPUs that are taken once the pod is there.
func (g *gpuPacking) Score(pod *sdk.Pod, node *sdk.Node) int64 {
	has, wants := node.Allocatable(g.resource), pod.Request(g.resource)
	if wants == 0 {
		if has > 0 {
			return 0
		}
		return sdk.MaxNodeScore
	}
	if has <= 0 {
		return 0
	}
	taken := min(node.Requested(g.resource)+wants, has)
	return taken * sdk.MaxNodeScore / has
}

func init() {
	sdk.Priority("GPUPacking", &gpuPacking{}, sdk.Reads(sdk.PodRequests|sdk.NodeCapacity|sdk.NodeUsage),
		sdk.Describe("Fills GPU nodes one after the other."))
}

func main() {}
