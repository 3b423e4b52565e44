package gc

import (
	"slices"

	"github.com/berth-dev/berth/host/store"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Action is the next step for one object.
type Action uint8

// The steps.
const (
	// Keep: nothing is to be done.
	Keep Action = iota
	// Remove: no owner is left, so the object goes, by Policy.
	Remove
	// Disown: some owners are gone; the references to them go, the object stays.
	Disown
	// Release: the object is free of what its finalizer waited for.
	Release
	// Unblock: the object is of a circle of owners, each of which waits for the
	// next; its own stop waiting for it.
	Unblock
	// Orphan: its dependents are to lose their references to it.
	Orphan
	// Spread: its dependents are to be deleted before it.
	Spread
)

// Verdict is what to do with an object.
type Verdict struct {
	Action Action
	// Policy of a Remove.
	Policy metav1.DeletionPropagation
	// Gone lists the owners whose references are to go, for Disown.
	Gone []types.UID
}

// Owner is what is known of the object that a reference names.
type Owner uint8

// States of an owner.
const (
	// Absent: no object of that uid is there.
	Absent Owner = iota
	// Solid: it is there and stays, or at least does not wait for dependents.
	Solid
	// Waiting: it is deleted in the foreground and waits for its dependents.
	Waiting
	// Circular: it is Waiting, and its own deletion keeps the object's waiting.
	Circular
	// Foreign: it is of a kind that this API does not serve, or the object is in no
	// namespace and the owner would have to be; nobody here can tell, so it counts
	// as solid.
	Foreign
)

// Judge decides about one object from its owners and its dependents, which it asks
// for only where they matter: they cost a look into every kind.
func Judge(obj store.Object, owner func(metav1.OwnerReference) Owner, dependents func() []store.Object) Verdict {
	deleted := obj.GetDeletionTimestamp() != nil
	switch {
	case deleted && has(obj, metav1.FinalizerOrphanDependents):
		if len(dependents()) == 0 {
			return Verdict{Action: Release}
		}
		return Verdict{Action: Orphan}
	case waits(obj):
		if !slices.ContainsFunc(dependents(), func(d store.Object) bool { return d.GetUID() != obj.GetUID() && blocks(d, obj.GetUID()) }) {
			return Verdict{Action: Release}
		}
		if slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return owner(ref) == Circular }) {
			return Verdict{Action: Unblock}
		}
		return Verdict{Action: Spread}
	case deleted:
		return Verdict{}
	}
	return judgeOwned(obj, owner, dependents)
}

func judgeOwned(obj store.Object, owner func(metav1.OwnerReference) Owner, dependents func() []store.Object) Verdict {
	refs := obj.GetOwnerReferences()
	if len(refs) == 0 {
		return Verdict{}
	}
	solid, waiting := false, false
	var gone []types.UID
	for _, ref := range refs {
		switch owner(ref) {
		case Solid, Foreign:
			solid = true
		case Waiting, Circular:
			waiting = true
			gone = append(gone, ref.UID)
		default:
			gone = append(gone, ref.UID)
		}
	}
	switch {
	case solid && len(gone) == 0:
		return Verdict{}
	case solid:
		return Verdict{Action: Disown, Gone: gone}
	case waiting && len(dependents()) > 0:
		// Whoever waits for this one waits for what hangs on it, too.
		return Verdict{Action: Remove, Policy: metav1.DeletePropagationForeground}
	case has(obj, metav1.FinalizerOrphanDependents):
		return Verdict{Action: Remove, Policy: metav1.DeletePropagationOrphan}
	case has(obj, metav1.FinalizerDeleteDependents):
		return Verdict{Action: Remove, Policy: metav1.DeletePropagationForeground}
	}
	return Verdict{Action: Remove, Policy: metav1.DeletePropagationBackground}
}

func has(obj store.Object, finalizer string) bool {
	return slices.Contains(obj.GetFinalizers(), finalizer)
}

// waits tells whether an object is deleted in the foreground.
func waits(obj store.Object) bool {
	return obj.GetDeletionTimestamp() != nil && has(obj, metav1.FinalizerDeleteDependents)
}

// blocks tells whether a dependent says that its owner's deletion waits for it.
func blocks(dependent store.Object, owner types.UID) bool {
	return slices.ContainsFunc(dependent.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}
