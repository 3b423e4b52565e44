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
	// Closed: a predicate refuses, a priority lets pods wait.
	Closed FailureMode = "Closed"
	// Open: a predicate admits, a priority counts for nothing on any node.
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
	// FailureMode is Closed for predicates, Open for priorities by default. A gate is
	// Unknown while it fails, whatever this says, and a controller does nothing.
	FailureMode FailureMode `json:"failureMode,omitempty"`
	// Limits bound what the guest may use.
	Limits *PolicyLimits `json:"limits,omitempty"`
	// Canary lets another module decide a share of the pods.
	Canary *Canary `json:"canary,omitempty"`
	// ServiceAccount is who a controller acts as: it reads and writes what RBAC
	// allows that account, and nothing else. A controller must have one; whoever
	// names it must be allowed to impersonate it. Other kinds reach nothing and
	// need none.
	ServiceAccount *ServiceAccountReference `json:"serviceAccount,omitempty"`
}

// ServiceAccountReference names a ServiceAccount.
type ServiceAccountReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// PolicyLimits bound one policy's sandbox.
type PolicyLimits struct {
	// MemoryBytes caps the guest's memory; 64 MiB by default.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// CallMilliseconds is the budget of a call, turned into fuel; 5 by default.
	CallMilliseconds int32 `json:"callMilliseconds,omitempty"`
}

// Canary is a second module on trial, for predicates, priorities and
// controllers: these decide about a share of the parents. It is
// withdrawn by itself when it fails in any way, and when it refuses too much.
type Canary struct {
	Module string `json:"module"`
	// Share of the pods that it decides, by pod hash, in percent (1…100).
	Share int32 `json:"share"`
	// MaxRefusals is the share (percent of the pods that it decides) for which
	// it may refuse some node that the old one admits; beyond, it is rolled
	// back. The first 20 pods count as 20. By default 100, which is any.
	MaxRefusals *intstr.IntOrString `json:"maxRefusals,omitempty"`
}

// PolicyStatus says what is live.
type PolicyStatus struct {
	// Phase is Live, Refused, Quarantined, NotRunning or Off.
	Phase string `json:"phase,omitempty"`
	// Message says why a new spec did not go live, why it is quarantined, or why a
	// controller does not run.
	Message string `json:"message,omitempty"`
	// Kind is predicate, priority, gate or controller.
	Kind string `json:"kind,omitempty"`
	// Live is the digest of the module that decides now.
	Live string `json:"live,omitempty"`
	// Set is the number of the live set that took it in.
	Set int64 `json:"set,omitempty"`
	// ObservedGeneration is the spec's generation that this status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Current is the revision that decides now, or did last where none can be
	// loaded (Live is empty then).
	Current *PolicyRevision `json:"current,omitempty"`
	// History lists previous revisions and canaries that failed, newest first.
	History []PolicyRevision `json:"history,omitempty"`
	// Canary tells what became of spec.canary.
	Canary *CanaryStatus `json:"canary,omitempty"`
	// Differences are what the shadow, or the canary of the last trial,
	// answered otherwise.
	Differences *Differences `json:"differences,omitempty"`
	// Conditions: Live (what the spec asks for decides) and CanaryHealthy.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PolicyRevision is a module with its config that decides, or did once.
type PolicyRevision struct {
	Module string                `json:"module"`
	Entry  string                `json:"entry,omitempty"`
	Config *runtime.RawExtension `json:"config,omitempty"`
	// ServiceAccount is who it acted as last, as a controller.
	ServiceAccount *ServiceAccountReference `json:"serviceAccount,omitempty"`
	// Since is when it came, Until when it left.
	Since metav1.Time  `json:"since"`
	Until *metav1.Time `json:"until,omitempty"`
	// Reason is how it came: Pushed, Promoted or RolledBack; Canary for one
	// that never was more.
	Reason string `json:"reason,omitempty"`
	// Left is how it left: Replaced, RolledBack or AutoRolledBack.
	Left string `json:"left,omitempty"`
	// Message says why, where there is more to say.
	Message string `json:"message,omitempty"`
}

// CanaryStatus is what became of a canary.
type CanaryStatus struct {
	Module string `json:"module"`
	// Phase is Running, Waiting (for its Module) or RolledBack.
	Phase string `json:"phase"`
	// Reason is Trapped, FuelSpent, Failed or RefusesTooMuch once it is rolled
	// back, Refused if it does not load.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when the phase began.
	Since metav1.Time `json:"since"`
	// Trial stands for what is tried: a canary that was rolled back is not
	// tried again until spec.canary, config or limits change.
	Trial string `json:"trial,omitempty"`
}

// Differences count where a shadow or canary answers otherwise than what is
// live: a canary than the policy's module, for the pods that it decides; a
// shadow than all policies of the profile together, for all pods. Of
// controllers answers are compared: of a canary with those of the policy's
// module about the parents that it decides, of a shadow with those of the live
// controllers of the same kind of parents.
type Differences struct {
	// Pods were compared.
	Pods int64 `json:"pods"`
	// Answers of a controller were compared; Otherwise are those of them that
	// want something else done.
	Answers   int64 `json:"answers,omitempty"`
	Otherwise int64 `json:"otherwise,omitempty"`
	// NotCompared are answers of a controller that there was nothing to compare
	// with: the live one failed.
	NotCompared int64 `json:"notCompared,omitempty"`
	// Refused nodes, of those that the other admits; RefusedPods are the pods
	// that they were refused to.
	Refused     int64 `json:"refused"`
	RefusedPods int64 `json:"refusedPods"`
	// Admitted nodes, of those that the other refuses.
	Admitted int64 `json:"admitted"`
	// Scored are pods for which another node is the best.
	Scored int64 `json:"scored"`
	// ScoreDelta is by how much normalised scores (0…100) differ.
	ScoreDelta *ScoreDelta `json:"scoreDelta,omitempty"`
	// Examples are the first differences of each sort, at most 10.
	Examples []Difference `json:"examples,omitempty"`
}

// ScoreDelta sums up how far scores are apart.
type ScoreDelta struct {
	// Nodes were scored by both.
	Nodes int64 `json:"nodes"`
	// Sum of the differences, new less old, in points of 0…100.
	Sum int64 `json:"sum"`
	// Least and Most of them.
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
}

// Difference is one pod and one node that two versions see differently, or one
// parent that two controllers do.
type Difference struct {
	Pod    string `json:"pod,omitempty"`
	Node   string `json:"node,omitempty"`
	Parent string `json:"parent,omitempty"`
	// Live is the verdict or score of what is live, Trial that of the canary
	// or shadow; of controllers what one wants done and the other does not.
	Live  string `json:"live"`
	Trial string `json:"trial"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Profile is what a pod's schedulerName picks.
type Profile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProfileSpec   `json:"spec"`
	Status ProfileStatus `json:"status,omitempty"`
}

// ProfileStatus says since when a profile decides.
type ProfileStatus struct {
	// ObservedGeneration is the generation that decides.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Set is the number of the first live set that holds it.
	Set int64 `json:"set,omitempty"`
	// Conditions: Live (what the spec asks for decides).
	Conditions []metav1.Condition `json:"conditions,omitempty"`
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
	Name string `json:"name"`
	// Weight is 1 by default.
	Weight int32 `json:"weight,omitempty"`
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
