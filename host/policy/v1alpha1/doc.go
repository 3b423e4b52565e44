// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true

// Package v1alpha1 holds the objects of policy.berth.dev/v1alpha1: Module,
// Policy and Profile. They are cluster-scoped and served like every other kind.
package v1alpha1
