package sdk

import (
	"errors"

	"github.com/berth-dev/berth/abi"
)

// Kind is what a policy is used as.
type Kind string

const (
	KindPredicate  Kind = "predicate"
	KindPriority   Kind = "priority"
	KindGate       Kind = "gate"
	KindController Kind = "controller"
)

// Groups of facts that a policy may read; see Reads.
const (
	PodRequests     = abi.PodRequests
	PodLabels       = abi.PodLabels
	PodAnnotations  = abi.PodAnnotations
	PodAffinity     = abi.PodAffinity
	PodTolerations  = abi.PodTolerations
	PodPorts        = abi.PodPorts
	PodVolumes      = abi.PodVolumes
	PodImages       = abi.PodImages
	NodeLabels      = abi.NodeLabels
	NodeTaints      = abi.NodeTaints
	NodeConditions  = abi.NodeConditions
	NodeAnnotations = abi.NodeAnnotations
	NodeCapacity    = abi.NodeCapacity
	NodeUsage       = abi.NodeUsage
	NodePorts       = abi.NodePorts
	NodeVolumes     = abi.NodeVolumes
	NodeImages      = abi.NodeImages
	Pods            = abi.Pods
	Services        = abi.Services
	Owners          = abi.Owners
	Namespaces      = abi.Namespaces
	VolumeObjects   = abi.Volumes
	Time            = abi.Time
	// PodTerms is for SkipDependsOn: the placed pods that carry affinity terms.
	PodTerms = abi.PodTerms
)

// Policy describes one policy of a module. Predicate, Priority, Gate and
// Controller fill it for the simple faces; Register takes it as it is.
//
// Open makes an instance from Setup: the settings, the Rows and the table of
// Reasons. One module is opened as many sandboxes, one policy each, so an instance
// may keep what it likes in its own fields. Open resolves what never changes:
// reasons (Setup.Reasons.ID) and symbols (Rows.Symbols.Intern). The instance
// implements
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
// each collection goes after every one of them. fmt and encoding/json cost
// hundreds of kilobytes: use Config and JSON.
type Policy struct {
	Name        string
	Kind        Kind
	Description string
	// Reads is what the policy is sent; nothing else ever reaches it.
	Reads abi.Groups
	Scope abi.Scope
	// SkipDependsOn is what it depends on whether the policy skips a pod, if that is
	// less than Reads: until some of it changes, the host may take a pod that
	// was skipped for skipped again, without asking.
	SkipDependsOn abi.Groups
	// Alike says that a reader of group pods never looks at a pod's UID or
	// name. They are not sent then, and replicas are told cheaply.
	ReplicasEqual bool
	// Normalize is a priority's way from raw scores to 0…100.
	Normalize abi.Normalization
	// ConfigSchema is a JSON schema of its settings, empty if it has none.
	ConfigSchema string
	// ConditionTypes are those that a gate answers for.
	ConditionTypes []string
	// Observe is what the host looks at for a gate; see the option.
	Observe []abi.Observe
	// Parent and Children are a controller's kinds, and the fields of them
	// that it wants to see.
	Parent   ObjectKind
	Children []ObjectKind
	Related  []ObjectKind
	// Open makes the policy's instance: a BatchFilterer, BatchScorer,
	// GateChecker or Reconciler, by Kind. An error refuses the settings.
	Open func(s *Setup) (any, error)
}

// ObjectKind names a kind and the fields of it that a controller is given,
// as paths such as "spec.replicas".
type ObjectKind struct {
	APIVersion, Kind string
	Fields           []string
	// Facts are what the host works out of an object: abi.Fact… lists them. They
	// are read as fields are.
	Facts []string
	// By says which objects of the kind belong to a parent, one of abi.By…; Path
	// is the parent's field that holds the selector or the name.
	By, Path string
	// Writes are the verbs that answers use: create, patch, delete. Where it is
	// empty, children may be created and deleted.
	Writes []string
	// Gone: a controller is asked about parents that are gone too, so that it can
	// take back what it left at their children, and given orphans that are being
	// deleted or whose parent is. A parent that is gone has no ResourceVersion, and
	// may have no fields.
	Gone bool
}

// Setup is what an instance is opened with.
type Setup struct {
	Config  Config
	Rows    *Rows
	Reasons *Reasons
}

// BatchFilterer is the face of a predicate that handles rows by itself.
// FilterRows writes one reason for each slot, 0 to admit; slots are live.
type BatchFilterer interface {
	PreFilter(pod *Pod) Answer
	FilterRows(slots []int32, verdicts []ReasonID)
}

// BatchScorer is the face of a priority that handles rows by itself. The
// higher the better.
type BatchScorer interface {
	PreScore(pod *Pod) Answer
	ScoreRows(slots []int32, scores []int64)
}

// Explainer is a predicate that can name all its reasons, not just the first.
type Explainer interface {
	Explain(slot int32, add func(Verdict))
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
type RowFollower interface {
	RowAdded(slot int32)
	RowRemoved(slot int32)
}

// PodFollower is told of the pods that count on rows: for policies that read
// group pods. A pod may be placed on a slot whose row is gone or not there
// yet; each placed pod is removed once, with the same facts. Pod carries the
// groups of the pod that the policy reads, and is valid during the call.
type PodFollower interface {
	PodPlaced(slot int32, pod *Pod)
	PodRemoved(slot int32, pod *Pod)
}

// ObjectFollower is told of cluster objects, of the groups that it reads.
// Object may be kept. A changed object comes again by ObjectChanged.
type ObjectFollower interface {
	ObjectChanged(o *Object)
	ObjectRemoved(o *Object)
}

// Idler is a policy that tidies up between cycles.
type Idler interface{ Idle() }

var (
	registered []*Policy
	module     = "unnamed"
	version    = "0.0.0"
)

// Module names the module in its manifest.
func Module(name, moduleVersion string) { module, version = name, moduleVersion }

// Register adds a policy to the module; call it from init.
func Register(p Policy) {
	if p.Name == "" || p.Open == nil {
		panic("sdk: a policy needs a name and an Open")
	}
	if lookup(p.Name) != nil {
		panic("sdk: policy " + p.Name + " is registered twice")
	}
	registered = append(registered, &p)
}

// Registered returns the module's policies.
func Registered() []*Policy { return registered }

func lookup(name string) *Policy {
	for _, p := range registered {
		if p.Name == name {
			return p
		}
	}
	return nil
}

var errFace = errors.New("the policy does not implement the face of its kind")

// ScopeRow and ScopeSet say what a policy's answers depend on.
const (
	ScopeRow = abi.ScopeRow
	ScopeSet = abi.ScopeSet
)
