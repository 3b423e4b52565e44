package admission

import (
	"context"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// claimResize lets claims grow whose class says that its volumes do. Validation has
// refused those that shrink, and those that are not bound.
type claimResize struct{ objects view.Objects }

func (c claimResize) validate(ctx context.Context, a *registry.Attributes) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !ok || !whole(a, registry.Update) {
		return nil
	}
	old, ok := a.Old.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.Resources.Requests.Storage().Cmp(*old.Spec.Resources.Requests.Storage()) <= 0 {
		return nil
	}
	class, err := c.classOf(ctx, claim, old)
	switch {
	case err != nil:
		return err
	case class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion:
		return forbid(a, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	case class.Provisioner == view.HostPath:
		return forbid(a, "StorageClass %s allows volume expansion, but nothing resizes volumes of %s: make a larger claim, and copy what this one holds", class.Name, view.HostPath)
	}
	return nil
}

// claimAttributes keeps the class of volume attributes that a bound claim has: the API
// has no VolumeAttributesClass, so that nobody could learn what another one means.
func claimAttributes(_ context.Context, a *registry.Attributes) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !ok || !whole(a, registry.Update) {
		return nil
	}
	old, ok := a.Old.(*corev1.PersistentVolumeClaim)
	if !ok || ptr.Deref(claim.Spec.VolumeAttributesClassName, "") == ptr.Deref(old.Spec.VolumeAttributesClassName, "") {
		return nil
	}
	return forbid(a, "nothing changes the attributes of volumes, since this API serves no VolumeAttributesClass: make a claim with spec.volumeAttributesClassName, and copy what this one holds")
}

// classOf is the class that a claim has and had, nil if there is none.
func (c claimResize) classOf(ctx context.Context, claim, old *corev1.PersistentVolumeClaim) (*storagev1.StorageClass, error) {
	name := volume.GetPersistentVolumeClaimClass(claim)
	if name == "" || name != volume.GetPersistentVolumeClaimClass(old) {
		return nil, nil
	}
	class, err := view.Get[*storagev1.StorageClass](ctx, c.objects, view.StorageClasses, "", name)
	if view.Missing(err) {
		return nil, nil
	}
	return class, err
}
