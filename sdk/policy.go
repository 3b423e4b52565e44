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
