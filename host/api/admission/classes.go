package admission

import (
	"context"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// storageClasses give claims that name no class the default one.
type storageClasses struct{ objects view.Objects }

// Annotations that make a storage class the default one.
var defaultStorage = []string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}

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
	if class, ok := standard(all, defaultStorage); ok {
		claim.Spec.StorageClassName = &class.Name
	}
	return nil
}

// ingressClasses give ingresses that name no class the default one, and warn
// where nobody acts on any.
type ingressClasses struct{ objects view.Objects }

var defaultIngress = []string{networkingv1.AnnotationIsDefaultIngressClass}

func (s ingressClasses) admit(ctx context.Context, a *registry.Attributes) error {
	ingress, ok := a.Object.(*networkingv1.Ingress)
	if !ok || !whole(a, registry.Create) {
		return nil
	}
	all, err := view.List[*networkingv1.IngressClass](ctx, s.objects, view.IngressClasses, "")
	if err != nil {
		return err
	}
	if len(all) == 0 {
		a.Warn("this cluster has no IngressClass: nothing serves this Ingress until an ingress controller is installed")
	}
	if _, named := ingress.Annotations["kubernetes.io/ingress.class"]; named || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if class, ok := standard(all, defaultIngress); ok {
		ingress.Spec.IngressClassName = &class.Name
	}
	return nil
}

// standard is the default one of some classes, the newest if there are several.
func standard[T store.Object](all []T, annotations []string) (newest T, found bool) {
	for _, class := range all {
		for _, key := range annotations {
			if class.GetAnnotations()[key] == "true" && (!found || newer(class, newest)) {
				newest, found = class, true
			}
		}
	}
	return newest, found
}

func newer(a, b store.Object) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if at.Equal(&bt) {
		return a.GetName() < b.GetName()
	}
	return bt.Before(&at)
}
