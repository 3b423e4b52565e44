package admission

import (
	"context"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// storageClasses give claims that name no class the default one.
type storageClasses struct{ objects view.Objects }

// Annotations that make a class the default one.
var isDefaultClass = []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}

func (s storageClasses) admit(ctx context.Context, a *registry.Attributes) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !ok || !whole(a, registry.Create) || claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, named := claim.Annotations[corev1.BetaStorageClassAnnotation]; named {
		return nil
	}
	all, err := view.List[*storagev1.StorageClass](ctx, s.objects, view.StorageClasses, "")
	if err != nil {
		return err
	}
	var newest *storagev1.StorageClass
	for _, class := range all {
		if standard(class) && (newest == nil || newer(class, newest)) {
			newest = class
		}
	}
	if newest != nil {
		claim.Spec.StorageClassName = &newest.Name
	}
	return nil
}

func standard(class *storagev1.StorageClass) bool {
	for _, key := range isDefaultClass {
		if class.Annotations[key] == "true" {
			return true
		}
	}
	return false
}

func newer(a, b *storagev1.StorageClass) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}
