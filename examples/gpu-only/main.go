// Command gpu-only keeps nodes with accelerators for the pods that ask for one.
package main

import "github.com/berth-dev/berth/sdk"

type gpuOnly struct{}

func (gpuOnly) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	if node.Label("accelerator") != "" && pod.Request("nvidia.com/gpu") == 0 {
		return sdk.Reject("node is kept for GPU pods")
	}
	return sdk.Admit
}

func init() { sdk.Predicate("GPUOnly", gpuOnly{}) }
func main() {}
