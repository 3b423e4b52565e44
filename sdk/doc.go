// Package sdk is what the author of a Berth policy imports. It builds with
// TinyGo and with Go for wasip1, and natively for go test.
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
// # The first face
//
// A handful of names is enough for a policy:
//
//	Predicate   a Filterer: Filter(*Pod, *Node) answers Admit, Reject or RejectFinal
//	Priority    a Scorer: Score(*Pod, *Node)
//	Gate        a GateChecker: Check(now, *GatePod) answers a Readiness
//	Controller  a Reconciler: Reconcile(*ReconcileRequest) answers a ReconcileResult
//	Configurer  what each of them implements to take settings, as a Config
//
// Options narrow what a policy reads (Reads), describe it and its settings
// (Describe, ConfigSchema), and say how scores become 0…100 (Normalize); package
// observe has what a gate can ask of the host (Observe).
//
// A predicate or priority of this face judges one pod and one node by nothing
// else: the host remembers its answers, and asks again only when a group of facts
// that it reads changes. So it must not count calls, keep anything between them,
// or range over a map where the order shows.
//
// # The rest
//
// Policy, for Register, is the full face: batches of rows, read by columns.
// RowFollower tells of policies that depend on more than one row, Symbol of
// strings that compare as integers. Log and NewCounter serve all policies.
//
// # Failure
//
// Settings are refused by an error from Open. After that nothing may fail: a
// panic traps, the host throws the instance away, builds another from the same
// rows, and applies the policy's failure mode.
package sdk
