package snapshot

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/chunkqueue"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Resources are summed quantities as integers: milli-CPU, bytes, counts.
type Resources struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	Pods             int64
	// Scalars are extended resources and hugepages, sorted by name.
	Scalars []Scalar
}

// Scalar is one further resource.
type Scalar struct {
	Name  string
	Value int64
}

// HostPort is one port that a pod holds on its node.
type HostPort struct {
	IP       string // never empty: 0.0.0.0 stands for all
	Protocol string // never empty: TCP by default
	Port     int32
}

// Row is what is known of one node, at one slot. A Row is never changed: a
// change makes a new one at the same slot.
type Row struct {
	Slot int32
	Node *v1.Node
	// Allocatable is Node.Status.Allocatable as integers, never negative.
	Allocatable Resources
	// Requested and NonZero are sums over Pods: real requests, and requests
	// with Kubernetes' non-zero defaults for scoring (100m CPU, 200 MiB).
	// Requested.Pods is len(Pods).
	Requested Resources
	NonZero   Resources
	Pods      []*Pod
	Ports     []HostPort
}

// Pod is a pod with what scheduling derives from it once. It is never changed.
type Pod struct {
	Object *v1.Pod
	// Requests follow Kubernetes' rules: containers summed, init containers
	// at their peak, sidecars and overhead added, pod-level resources first.
	Requests Resources
	NonZero  Resources
	// Weighed is what the pod is scored with before it is placed. As in
	// kube-scheduler 1.36, whose NodeResourcesFit scores so, it is NonZero
	// without pod-level requests and without what a resize has changed.
	Weighed Resources
	Ports   []HostPort
	// Hash is one hash for each group of abi.PodGroups, over the facts that
	// this group holds and without generated names, so that replicas hash alike.
	Hash [8]uint64
	// volumes says that the pod brings volumes which policies count by node.
	volumes bool
	ref     *Ref
}

// UID is the pod's identity.
func (p *Pod) UID() types.UID { return p.Object.UID }

// DeltaKind says what a Delta tells.
type DeltaKind uint8

const (
	// RowUpsert: Row is new at its slot, or has changed in Groups.
	RowUpsert DeltaKind = iota
	// RowRemove: the node at Slot is gone.
	RowRemove
	// PodPlaced: Pod now counts on Slot (bound or reserved). The changed sums
	// come in the RowUpsert of the same Seq, which precedes it.
	PodPlaced
	// PodRemoved: Pod no longer counts on Slot.
	PodRemoved
	// ObjectUpsert, ObjectRemove: a cluster object (service, owner, namespace,
	// volume, claim, class, CSI node) of Groups is new, changed or gone.
	ObjectUpsert
	ObjectRemove
)

// Delta is one change of the snapshot. Deltas are numbered by Seq without
// gaps and never changed once they are appended.
type Delta struct {
	Seq    uint64
	Kind   DeltaKind
	Slot   int32
	Groups abi.Groups
	Row    *Row
	Pod    *Pod
	// Resource ("services", "persistentvolumes", …) and Object are set for
	// ObjectUpsert and ObjectRemove.
	Resource string
	Object   runtime.Object
}

// Deltas are deltas in order, as the log holds them.
type Deltas = chunkqueue.Part[Delta]

// Log is what a policy instance follows to be up to date.
type Log interface {
	// Seq is the number of the newest delta.
	Seq() uint64
	// Since returns the deltas after seq in order. ok is false where they have
	// left the bounded log: the reader starts again from Rows, Placed and Objects.
	Since(seq uint64) (deltas Deltas, ok bool)
	// Base replays the whole present state as deltas: every row, every placed
	// pod, every cluster object.
	Base(yield func(Delta) bool)
	// Row returns the row at a slot, nil for an empty slot.
	Row(slot int32) *Row
	// Slots is one more than the highest slot in use.
	Slots() int32
	// Pods is how many pods are placed on the rows.
	Pods() int
	// ObjectsOf is how many cluster objects there are of these groups.
	ObjectsOf(groups abi.Groups) int
}
