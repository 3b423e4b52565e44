// Package policytest tests policies by tables: nodes, pods, and what the policy
// should say of each.
//
//	func TestGPUOnly(t *testing.T) {
//		policytest.Run(t, policytest.Table{
//			Policy: "GPUOnly",
//			Nodes: []policytest.Node{
//				{Name: "plain"},
//				{Name: "gpu", Labels: map[string]string{"accelerator": "a100"}},
//			},
//			Cases: []policytest.Case{{
//				Name: "a pod without GPUs stays off GPU nodes",
//				Want: map[string]string{"plain": "", "gpu": "node is kept for GPU pods"},
//			}},
//		})
//	}
//
// A table runs natively, in the bytes that a host would send. With the
// environment variable BERTH_POLICYTEST naming a folder, each call and its
// answer are also written there; Replay asks a wasm build of the policy the
// same and compares, which is what `berth policy test` does. So a policy is
// tested as a guest without its module depending on an engine.
package policytest
