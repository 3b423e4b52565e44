// Package abi is the contract between Berth's host and its guests: the schema
// of the records, the names of the exports, codes and limits. SPEC.md tells it
// in prose, complete enough to write a guest in any language.
package abi

// Version is the ABI that this package describes; a module says that it
// follows it by exporting Marker.
const Version = 1

// Exports of a guest. SPEC.md gives each one's meaning.
const (
	Marker       = "berth_abi_v1"
	FuncManifest = "berth_manifest"
	FuncInput    = "berth_input"
	FuncOpen     = "berth_open"
	FuncApply    = "berth_apply"
	FuncPod      = "berth_pod"
	FuncFilter   = "berth_filter"
	FuncScore    = "berth_score"
	FuncWhatIf   = "berth_whatif"
	FuncReasons  = "berth_reasons"
	FuncExplain  = "berth_explain"
	FuncGate     = "berth_gate"
	FuncIdle     = "berth_idle"
	FuncError    = "berth_error"
	FuncAt       = "berth_at"
	FuncDepends  = "berth_depends"
	// FuncReconcile is outside v1 until several real controllers run on it.
	FuncReconcile = "berth_reconcile"
)

// MaxScore bounds a raw score on both sides; the host clamps what lies beyond.
const MaxScore = 1 << 40

// Groups is a set of the groups of facts that a policy may read. A guest is
// sent the groups that its manifest names and nothing else.
type Groups uint32

const (
	PodRequests Groups = 1 << iota
	PodLabels
	PodAnnotations
	PodAffinity
	PodTolerations
	PodPorts
	PodVolumes
	PodImages
	NodeLabels
	NodeTaints
	NodeConditions
	NodeAnnotations
	NodeCapacity
	NodeUsage
	NodePorts
	NodeVolumes
	NodeImages
	Pods
	Services
	Owners
	Namespaces
	Volumes
	Time
	NodeName
)

// NumGroups is how many groups there are.
const NumGroups = 24

// PodTerms stands for the placed pods that carry affinity or anti-affinity
// terms, a part of Pods. It is named in Policy.SkipDependsOn only.
const PodTerms Groups = 1 << NumGroups

const podTermsName = "pods.terms"

// GroupNames holds each group's name as it stands in a manifest, by bit.
var GroupNames = [NumGroups]string{
	"pod.requests", "pod.labels", "pod.annotations", "pod.affinity", "pod.tolerations",
	"pod.ports", "pod.volumes", "pod.images",
	"node.labels", "node.taints", "node.conditions", "node.annotations", "node.capacity",
	"node.usage", "node.ports", "node.volumes", "node.images",
	"pods", "services", "owners", "namespaces", "volumes", "time",
	"node.name",
}

// Sets of groups by what they are facts of. NodeGroups are what changes of a node;
// its name, NodeName, never does.
const (
	PodGroups     = PodRequests | PodLabels | PodAnnotations | PodAffinity | PodTolerations | PodPorts | PodVolumes | PodImages
	NodeGroups    = NodeLabels | NodeTaints | NodeConditions | NodeAnnotations | NodeCapacity | NodeUsage | NodePorts | NodeVolumes | NodeImages
	ClusterGroups = Pods | Services | Owners | Namespaces | Volumes
)

// Scope says what an answer about (pod, row) depends on.
type Scope uint8

const (
	// ScopeRow: the pod and the row alone decide.
	ScopeRow Scope = iota
	// ScopeSet: other rows, pods or cluster objects decide too.
	ScopeSet
)

// Normalization turns a priority's raw scores into 0…100 over the feasible rows.
type Normalization uint8

const (
	NormalizeNone Normalization = iota
	NormalizeMax
	NormalizeMaxReversed
	NormalizeMinMax
)

// Ask is what berth_pod answers, in the low byte of its result.
type Ask uint8

const (
	// AskRows: the rows must be asked.
	AskRows Ask = iota
	// AskSkip: a predicate admits all rows, a priority scores none.
	AskSkip
	// AskRefuse: no row can take the pod; the reason's index stands in bits 8…39.
	AskRefuse
)

// AskError in the low byte says that the call failed; Error has the text.
const AskError Ask = 0xff

// IdleRebuild is what berth_idle answers when the guest holds far more than
// its rows need, and would be smaller if it were built anew.
const IdleRebuild = 2

// Status codes of the exports that return one.
const (
	StatusOK = 0
	// StatusFailed: the guest is as it was before the call, FuncError says why.
	StatusFailed = 1
)

// Limits of what crosses the boundary. The host sends no more and takes no more.
const (
	MaxInput    = 16 << 20
	MaxManifest = 256 << 10
	MaxAnswer   = 4 << 20
	MaxMemory   = 64 << 10
	MaxReasons  = 255
	MaxReason   = 512
	MaxText     = 4 << 10
	MaxPolicies = 256
	MaxName     = 63
	MaxCounters = 32
	MaxObserves = 16
	// Of what a gate has the host ask by HTTP.
	MaxPath        = 2 << 10
	MaxHeaders     = 16
	MaxHeaderBytes = 4 << 10
	// MaxTimeoutSeconds is how long an attempt may take.
	MaxTimeoutSeconds = 10
	// KeptPods is how many of the pods that it is told of a guest keeps, for others
	// that are like one of them.
	KeptPods = 32
)

// ImportModule and ImportLog name the one function that a guest may import
// beside WASI: log(level, ptr, len u32).
const (
	ImportModule = "berth"
	ImportLog    = "log"
)

// NormalizationNames holds each way's name as it stands in a manifest.
var NormalizationNames = [...]string{"none", "max", "max-reversed", "min-max"}
