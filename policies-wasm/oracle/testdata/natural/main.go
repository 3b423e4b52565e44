// Command natural holds predicates as somebody writes them who knows nothing of
// columns, for the tests of what that costs.
package main

import "github.com/berth-dev/berth/sdk"

// headroom keeps a tenth of each node free, each resource spelt out.
type headroom struct{}

func (headroom) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	if node.Requested("cpu")+pod.Request("cpu") > node.Allocatable("cpu")*9/10 {
		return sdk.Reject("less than a tenth of the CPU would be left")
	}
	if node.Requested("memory")+pod.Request("memory") > node.Allocatable("memory")*9/10 {
		return sdk.Reject("less than a tenth of the memory would be left")
	}
	if node.Requested("nvidia.com/gpu")+pod.Request("nvidia.com/gpu") > node.Allocatable("nvidia.com/gpu") {
		return sdk.Reject("too few GPUs")
	}
	return sdk.Admit
}

// looping is headroom with a list of resources.
type looping struct{}

func (looping) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	for _, resource := range []string{"cpu", "memory", "nvidia.com/gpu"} {
		if node.Requested(resource)+pod.Request(resource) > node.Allocatable(resource)*9/10 {
			return sdk.Reject("less than a tenth would be left of " + resource)
		}
	}
	return sdk.Admit
}

// mapped is looping with the pod's requests in a map first.
type mapped struct{}

func (mapped) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	wants := map[string]int64{"cpu": pod.Request("cpu"), "memory": pod.Request("memory"), "nvidia.com/gpu": pod.Request("nvidia.com/gpu")}
	for resource, want := range wants {
		if node.Free(resource) < want {
			return sdk.Reject("too little is free")
		}
	}
	return sdk.Admit
}

func init() {
	sdk.Predicate("Headroom", headroom{})
	sdk.Predicate("Looping", looping{})
	sdk.Predicate("Mapped", mapped{})
}

func main() {}
