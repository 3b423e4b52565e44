package guest

import (
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/row"
)

// BatchFilterer is the face of a predicate that handles rows by itself.
// FilterRows writes one reason for each slot, 0 to admit; slots are live.
type BatchFilterer interface {
	PreFilter(pod *facts.Pod) Answer
	FilterRows(slots []int32, verdicts []ReasonID)
}

// BatchScorer is the face of a priority that handles rows by itself. The
// higher the better.
type BatchScorer interface {
	PreScore(pod *facts.Pod) Answer
	ScoreRows(slots []int32, scores []int64)
}

// Explainer is a predicate that can name all its reasons, not just the first.
type Explainer interface {
	Explain(slot int32, add func(Verdict))
}

// Refuser is a predicate that can say more of why it refused the pod as such than an
// entry of the table of reasons, which has room for few: it can name a claim. Refusal
// is asked for after PreFilter has refused; without words, the entry stands.
type Refuser interface {
	Refusal() string
}

// Depender is a policy that handles rows by itself and whose answers about the pod of
// the cycle depend on less of a row than the policy reads: on some labels, on one of
// some names. The host asks about one of the rows that are equal in these, and asks
// Depends after PreFilter or PreScore. d holds all other groups that the policy reads.
// The simple faces need no such thing: what their authors' code looks at is noted.
type Depender interface {
	Depends(d *row.Depends)
}

// RowFollower is told of rows. A row whose groups change (node.usage apart:
// read it from the columns) is removed, with its old facts still in place, and
// then added with the new ones.
//
// # Policies that depend on more than one row
//
// A policy that looks at other rows, at placed pods or at cluster objects says
// Scope: ScopeSet. It is asked in each cycle, with the whole feasible set at
// once, and keeps counts of its own, told of each change by the interfaces that
// its instance implements:
//
//   - RowFollower: RowAdded(slot), RowRemoved(slot). A row that changes in
//     anything but node.usage is removed, while the table still holds its old facts,
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
type RowFollower interface {
	RowAdded(slot int32)
	RowRemoved(slot int32)
}

// PodFollower is told of the pods that count on rows: for policies that read
// group pods. A pod may be placed on a slot whose row is gone or not there
// yet; each placed pod is removed once, with the same facts. Pod carries the
// groups of the pod that the policy reads, and is valid during the call.
type PodFollower interface {
	PodPlaced(slot int32, pod *facts.Pod)
	PodRemoved(slot int32, pod *facts.Pod)
}

// ObjectFollower is told of cluster objects, of the groups that it reads.
// Object may be kept. A changed object comes again by ObjectChanged.
type ObjectFollower interface {
	ObjectChanged(o *facts.Object)
	ObjectRemoved(o *facts.Object)
}

// Idler is a policy that tidies up between cycles.
type Idler interface{ Idle() }
