package guest

import (
	"errors"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
	"github.com/berth-dev/berth/sdk/row"
)

// Kind is what a policy is used as.
type Kind string

const (
	KindPredicate  Kind = "predicate"
	KindPriority   Kind = "priority"
	KindGate       Kind = "gate"
	KindController Kind = "controller"
)

// Policy describes one policy of a module. sdk.Predicate, Priority, Gate and
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
// hundreds of kilobytes: use package json.
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
	// ReplicasEqual says that a reader of group pods never looks at a pod's UID or
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
	Parent   reconcile.Kind
	Children []reconcile.Kind
	Related  []reconcile.Kind
	// Seed has a controller be given a number with each question.
	Seed bool
	// Open makes the policy's instance: a BatchFilterer, BatchScorer,
	// gate.Checker or reconcile.Reconciler, by Kind. An error refuses the settings.
	Open func(s *Setup) (any, error)
}

// Setup is what an instance is opened with.
type Setup struct {
	Config  json.Value
	Rows    *row.Table
	Reasons *Reasons
}

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
