// Package sdk is what the author of a Berth policy imports. It builds with
// TinyGo, with Go for wasip1, and natively for go test.
//
//	type gpuOnly struct{}
//
//	func (gpuOnly) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
//		if node.Label("accelerator") != "" && pod.Request("nvidia.com/gpu") == 0 {
//			return sdk.Reject("node is kept for GPU pods")
//		}
//		return sdk.Admit
//	}
//
//	func init() { sdk.Predicate("GPUOnly", gpuOnly{}) }
//	func main() {}
//
// A predicate is a Filterer, a priority a Scorer; packages gate and reconcile
// have what gates and controllers take. Each may be a Configurer.
//
// A Filterer or Scorer judges one pod and one node by nothing else: the host
// remembers its answers, and asks again when facts change that it Reads. So it
// must not count calls, or range over a map where the order shows. Package guest
// has the full face: batches of rows, and policies that follow the cluster.
//
// Settings are refused by an error. A panic traps: the host opens the policy
// anew, and applies its failure mode.
package sdk
