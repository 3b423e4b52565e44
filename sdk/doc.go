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
// # Simple faces
//
// Predicate, Priority, Gate and Controller register a policy in its simplest
// form. Options narrow what it reads (Reads), describe it and its settings, and
// say how scores become 0…100 (Normalize). A policy with settings implements
// Configurer. A predicate or priority of this form judges one pod and one node
// by nothing else: the host remembers its answers, and asks again only when a
// group of facts that it reads changes. So it must not count calls, keep
// anything between them, or range over a map where the order shows.
//
// # The full face
//
// Register takes a Policy whose Open makes an instance from Setup: the settings,
// the Rows and the table of Reasons. One module is opened as many sandboxes, one
// policy each, so an instance may keep what it likes in its own fields. Open
// resolves what never changes: reasons (Setup.Reasons.ID) and symbols
// (Rows.Symbols.Intern). The instance implements
//
//   - BatchFilterer: PreFilter sees the pod once a cycle and answers Skip, Refuse
//     or AskRows; FilterRows then fills one ReasonID for each slot.
//   - BatchScorer: PreScore and ScoreRows, the same with scores.
//   - Explainer, if a predicate can name more than the first of its reasons.
//
// FilterRows is called with live slots only, any number of times after one
// PreFilter, with any part of the rows. The Pod that PreFilter got stays valid
// until the next PreFilter. Loops over rows should read columns (Rows.Allocatable,
// LabelColumn, TaintSet, …) and must not allocate: allocating code is ten times
// slower in a guest than outside. Keys of maps must not be hashes, or numbers as
// random: TinyGo's collector takes them for pointers, so that garbage stays and
// each collection goes after every one of them. fmt and encoding/json cost hundreds of
// kilobytes: use Config and JSON.
//
// # Scope set: policies that depend on more than one row
//
// A policy that looks at other rows, at placed pods or at cluster objects says
// Scope: ScopeSet. It is asked in each cycle, with the whole feasible set at
// once, and keeps counts of its own, told of each change by the interfaces that
// its instance implements:
//
//   - RowFollower: RowAdded(slot), RowRemoved(slot). A row that changes in
//     anything but node.usage is removed, while Rows still holds its old facts,
//     and then added with the new ones. A removed row has been live.
//   - PodFollower (group pods): PodPlaced(slot, pod), PodRemoved(slot, pod), each
//     with the groups of the pod that the policy reads, and UID, Name and
//     Terminating. A placed pod whose labels change is removed and placed again.
//     All pods of a row are removed before the row is.
//   - ObjectFollower (groups services, owners, namespaces, volumes):
//     ObjectChanged(object) for new and changed objects, ObjectRemoved(object).
//
// The order within a batch is that of the changes; at first, and after the host
// has replaced the instance, everything comes anew: objects, and each row before
// the pods on it. Callbacks get no pod that outlives them: keep symbols and
// integers, or Clone what is to stay. Objects may be kept as they are.
//
// PreFilter may walk the policy's counts; it must leave them as they are, since
// they belong to the cluster and not to the pod. A what-if question is asked by
// applying its changes through the same callbacks, calling PreFilter and
// FilterRows for the one row, and taking the changes back in reverse order (a
// placed pod is removed, a changed row put back). So a policy whose counts
// follow the callbacks exactly answers such questions without further code, and
// one whose RowRemoved does not undo its RowAdded breaks them.
//
// # Symbols
//
// Strings arrive interned: equal strings are equal Symbols within one instance.
// NoSymbol stands for absence, EmptySymbol for the empty string. Interning makes
// labels comparable as integers, and a known pod decodes without allocating.
//
// # Failure
//
// Settings are refused by an error from Open. After that nothing may fail: a
// panic traps, the host throws the instance away, builds another from the same
// rows, and applies the policy's failure mode.
package sdk
