package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Module is WebAssembly by content. Its name is sha256-<hex digest>.
type Module struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ModuleSpec   `json:"spec"`
	Status ModuleStatus `json:"status,omitempty"`
}

// ModuleSpec is what was uploaded.
type ModuleSpec struct {
	// Digest is "sha256:<hex>" of the module as uploaded.
	Digest string `json:"digest,omitempty"`
	// Size is its length in bytes.
	Size int64 `json:"size,omitempty"`
	// Wasm is the module inline, for clients that have nothing but kubectl.
	// The host moves it into chunks on create and clears the field.
	Wasm []byte `json:"wasm,omitempty"`
	// Signatures are ed25519 signatures over the digest.
	Signatures []Signature `json:"signatures,omitempty"`
}

// Signature is one key's word for a module.
type Signature struct {
	// KeyID is "ed25519:<hex of the public key's sha256, first 16 bytes>".
	KeyID string `json:"keyID"`
	// Value is the signature over the raw sha256 of the module.
	Value []byte `json:"value"`
}

// ModuleStatus is what the host found in it.
type ModuleStatus struct {
	// Phase is Accepted or Refused.
	Phase string `json:"phase,omitempty"`
	// Message says why it was refused.
	Message string `json:"message,omitempty"`
	// Version is the module's own, from its manifest.
	Version string `json:"version,omitempty"`
	// Entries are the policies that the module implements.
	Entries []ModuleEntry `json:"entries,omitempty"`
}

// ModuleEntry is one policy in a module.
type ModuleEntry struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Description string `json:"description,omitempty"`
}

// Mode says what a policy's answers are used for.
type Mode string

const (
	// Enforce: its answers decide.
	Enforce Mode = "Enforce"
	// Shadow: it runs beside the others, its differences are recorded.
	Shadow Mode = "Shadow"
	// Off: it is not run.
	Off Mode = "Off"
)

// FailureMode says what holds when a policy fails.
type FailureMode string

const (
	// Closed: a predicate refuses, a gate is Unknown.
	Closed FailureMode = "Closed"
	// Open: a predicate admits, a priority scores neutral.
	Open FailureMode = "Open"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Policy is one predicate, priority, gate checker or controller in use.
type Policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PolicySpec   `json:"spec"`
	Status PolicyStatus `json:"status,omitempty"`
}

// PolicySpec names what runs, and how.
type PolicySpec struct {
	// Module is the name or digest of a Module.
	Module string `json:"module"`
	// Entry is the policy's name in the module; by default the Policy's name.
	Entry string `json:"entry,omitempty"`
	// Config is given to the policy as JSON; its schema is in the manifest.
	Config *runtime.RawExtension `json:"config,omitempty"`
	// Mode is Enforce by default.
	Mode Mode `json:"mode,omitempty"`
	// FailureMode is Closed for predicates and gates, Open for priorities by default.
	FailureMode FailureMode `json:"failureMode,omitempty"`
	// Limits bound what the guest may use.
	Limits *PolicyLimits `json:"limits,omitempty"`
	// Canary lets another module decide a share of the pods.
	Canary *Canary `json:"canary,omitempty"`
}

// PolicyLimits bound one policy's sandbox.
type PolicyLimits struct {
	// MemoryBytes caps the guest's memory; 64 MiB by default.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// CallMilliseconds is the budget of a call, turned into fuel; 5 by default.
	CallMilliseconds int32 `json:"callMilliseconds,omitempty"`
}

// Canary is a second module on trial.
type Canary struct {
	Module string `json:"module"`
	// Share of the pods that it decides, by pod hash, in percent (1…100).
	Share int32 `json:"share"`
	// MaxRefusals is the share (percent of canary pods) that it may refuse
	// although the old one admits; beyond, it is rolled back. 100 means any.
	MaxRefusals *intstr.IntOrString `json:"maxRefusals,omitempty"`
}

// PolicyStatus says what is live.
type PolicyStatus struct {
	// Phase is Live, Refused, Quarantined or Off.
	Phase string `json:"phase,omitempty"`
	// Message says why a new spec did not go live, or why it is quarantined.
	Message string `json:"message,omitempty"`
	// Kind is predicate, priority, gate or controller.
	Kind string `json:"kind,omitempty"`
	// Live is the digest of the module that decides now.
	Live string `json:"live,omitempty"`
	// Set is the number of the live set that took it in.
	Set int64 `json:"set,omitempty"`
	// ObservedGeneration is the spec's generation that this status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// History lists former modules, newest first.
	History []PolicyRevision `json:"history,omitempty"`
	// Differences are what shadow and canary answered otherwise.
	Differences *Differences `json:"differences,omitempty"`
}

// PolicyRevision is a module that was live once.
type PolicyRevision struct {
	Module string                `json:"module"`
	Config *runtime.RawExtension `json:"config,omitempty"`
	Since  metav1.Time           `json:"since"`
	// Reason is Pushed, RolledBack or Promoted.
	Reason string `json:"reason,omitempty"`
}

// Differences count where a shadow or canary would have decided otherwise.
type Differences struct {
	Pods     int64    `json:"pods"`
	Refused  int64    `json:"refused"`
	Admitted int64    `json:"admitted"`
	Scored   int64    `json:"scored"`
	Examples []string `json:"examples,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Profile is what a pod's schedulerName picks.
type Profile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ProfileSpec `json:"spec"`
}

// ProfileSpec lists predicates in the order in which they are asked, and
// priorities with their weights.
type ProfileSpec struct {
	// SchedulerNames are the values of spec.schedulerName that pick this
	// profile; by default the profile's own name.
	SchedulerNames []string           `json:"schedulerNames,omitempty"`
	Predicates     []ProfilePredicate `json:"predicates,omitempty"`
	Priorities     []ProfilePriority  `json:"priorities,omitempty"`
	// Groups name sets of predicates, such as GeneralPredicates.
	Groups []PredicateGroup `json:"groups,omitempty"`
}

// ProfilePredicate names a Policy or a group.
type ProfilePredicate struct {
	Name string `json:"name"`
}

// ProfilePriority names a Policy and its weight.
type ProfilePriority struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight"`
}

// PredicateGroup is a named set of predicates.
type PredicateGroup struct {
	Name    string   `json:"name"`
	Members []string `json:"members"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ModuleList is a list of modules.
type ModuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Module `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PolicyList is a list of policies.
type PolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Policy `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ProfileList is a list of profiles.
type ProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Profile `json:"items"`
}
