package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is policy.berth.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: "policy.berth.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this group.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Module{}, &ModuleList{}, &Policy{}, &PolicyList{}, &Profile{}, &ProfileList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
