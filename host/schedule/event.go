package schedule

import (
	"context"

	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/schedule/volumes"
)

// Resources that the scheduler must be told of, as group-resources.
var Resources = []string{
	"nodes", "pods", "namespaces", "services", "replicationcontrollers", "replicasets.apps", "statefulsets.apps",
	"persistentvolumes", "persistentvolumeclaims", "storageclasses.storage.k8s.io", "csinodes.storage.k8s.io",
	"csidrivers.storage.k8s.io", "csistoragecapacities.storage.k8s.io", "volumeattachments.storage.k8s.io",
	"poddisruptionbudgets.policy",
}

// Event is a change of an object that scheduling reads.
type Event struct {
	Resource string
	Deleted  bool
	// Object is the new state, or the last one of what was deleted.
	Object snapshot.Object
}

// Source tells the scheduler what is and what changes.
type Source interface {
	// Next waits for the next events, at least one. Everything that existed
	// at the start has been told before the first call after which synced is
	// true.
	Next(ctx context.Context) (events []Event, synced bool, err error)
}

// Binding is a pod that shall be bound to a node, with the volumes that its
// claims get.
type Binding struct {
	Pod     *v1.Pod
	Node    string
	Volumes []volumes.Match
}

// Condition is what a pod's PodScheduled condition shall say. Nominated is the
// node on which room is being made, empty for none.
type Condition struct {
	Pod       *v1.Pod
	Reason    string
	Message   string
	Nominated string
}

// Eviction is a pod that must make room for another one.
type Eviction struct {
	Victim *v1.Pod
	// By is the pod for which room is made, Node where.
	By   *v1.Pod
	Node string
}

// Provision asks for volumes of claims to be made where a node can reach them.
// The pod's other claims get the volumes that exist.
type Provision struct {
	Pod     *v1.Pod
	Claims  []*v1.PersistentVolumeClaim
	Node    string
	Volumes []volumes.Match
}

// Binder writes what the scheduler decides. Its calls may take long; each
// answers with one error for each of what it was given.
type Binder interface {
	// Bind binds many pods in as few durable commits as it can; a pod and its
	// volumes are bound together or not at all.
	Bind(ctx context.Context, bindings []Binding) []error
	// Condition writes why pods are not bound.
	Condition(ctx context.Context, conditions []Condition) []error
	// Evict deletes pods with their grace period.
	Evict(ctx context.Context, evictions []Eviction) []error
	// Provision writes the selected node to claims, and binds others.
	Provision(ctx context.Context, provisions []Provision) []error
}

// Recorder tells users what happened to a pod. It must not block.
type Recorder interface {
	Event(pod *v1.Pod, kind, reason, message string)
}
