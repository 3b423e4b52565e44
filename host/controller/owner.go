package controller

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
)

// ControlledBy tells whether the owner, of that kind, controls the object. A UID
// does not say it alone: whoever writes an object writes any into its references.
func ControlledBy(o metav1.Object, kind *Kind, owner metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.UID == owner.GetUID() && ref.Name == owner.GetName() && refersTo(ref, kind) &&
		(owner.GetNamespace() == "" || owner.GetNamespace() == o.GetNamespace())
}

func (p *plan) owns(o store.Object) bool { return ControlledBy(o, &p.d.parent.kind, p.parent) }

// refersTo tells whether a reference is to an object of the kind, in any version.
func refersTo(ref *metav1.OwnerReference, kind *Kind) bool {
	return ref.Kind == kind.Kind && groupOf(ref.APIVersion) == groupOf(kind.APIVersion)
}

func groupOf(apiVersion string) string {
	return apiVersion[:max(strings.IndexByte(apiVersion, '/'), 0)]
}

// sameOwner compares two references, each of which may be nil.
func sameOwner(a, b *metav1.OwnerReference) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && groupOf(a.APIVersion) == groupOf(b.APIVersion)
}
