package registry

import (
	"fmt"

	"github.com/berth-dev/berth/host/api/kind"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// namespaceOpen refuses to create in a namespace that isn't there or is about
// to go.
func (reg *Registry) namespaceOpen(r *Request) error {
	if !r.Kind.Namespaced {
		return nil
	}
	obj, ok := reg.store.Get(namespaceKind.Key("", r.Namespace))
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), r.Namespace)
	}
	if obj.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(r.Kind.GroupResource(), r.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
	return withCause(err, corev1.NamespaceTerminatingCause, fmt.Sprintf("namespace %s is being terminated", r.Namespace))
}

var namespaceKind = kind.MustStored("namespaces")
