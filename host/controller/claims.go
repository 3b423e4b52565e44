package controller

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/berth-dev/berth/host/store"
)

// claimsOf are the names of the claims of a pod's volumes, also of those that are
// made for the pod.
func claimsOf(pod *v1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, ephemeral.VolumeClaimName(pod, v))
		}
	}
	return names
}

func podClaimIndex(o store.Object) (values []string) {
	for _, name := range claimsOf(o.(*v1.Pod)) {
		values = append(values, referenceIndex(o.GetNamespace(), name))
	}
	return values
}

// claiming are the pods with a volume of the claim. A claim that somebody else made
// under the name of a pod's own is not the pod's.
func (d *Driver) claiming(parent store.Object) (found []store.Object) {
	claim, ok := parent.(*v1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	for _, o := range d.Objects.Indexed("pods", IndexClaims, referenceIndex(claim.Namespace, claim.Name)) {
		if uses(o.(*v1.Pod), claim) {
			found = append(found, o)
		}
	}
	return found
}

// uses tells whether a pod uses a claim. What is made for a pod that has been shut
// down, and is kept by finalizers alone, may go before it.
func uses(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name {
			return true
		}
		if v.Ephemeral != nil && !shutDown(pod) && ephemeral.VolumeClaimName(pod, v) == claim.Name && ephemeral.VolumeIsForPod(pod, claim) == nil {
			return true
		}
	}
	return false
}

// wakeByClaim wakes the claims of a pod's volumes.
func (d *Driver) wakeByClaim(o store.Object) {
	for _, name := range claimsOf(o.(*v1.Pod)) {
		d.soon(types.NamespacedName{Namespace: o.GetNamespace(), Name: name})
	}
}

func shutDown(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}
