package kind

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/host/store"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/validation"
)

func aggregationKinds() []Kind {
	return []Kind{{
		Name: "APIService", Resource: "apiservices", Served: served(apiregistrationv1.SchemeGroupVersion),
		Categories: []string{"api-extensions"}, Columns: apiServiceColumns, Strategy: apiServices{Scheme, names.SimpleNameGenerator},
		Subresources: []Subresource{statusPart(apiServiceStatus{apiServices{Scheme, names.SimpleNameGenerator}})},
	}}
}

var apiServiceColumns = columns(func(obj store.Object) []any {
	s := obj.(*apiregistrationv1.APIService)
	service, available := "Local", string(apiregistrationv1.ConditionUnknown)
	if at := s.Spec.Service; at != nil {
		service = at.Namespace + "/" + at.Name
	}
	for _, c := range s.Status.Conditions {
		if c.Type != apiregistrationv1.Available {
			continue
		}
		available = string(c.Status)
		if c.Status != apiregistrationv1.ConditionTrue && c.Reason != "" {
			available = fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
	}
	return []any{service, available}
},
	column("Service", "The reference to the service that hosts this API endpoint."),
	column("Available", "Whether this service is available."),
)

// apiServices do as kube-aggregator's strategy does, whose package would bring
// the client of etcd along.
type apiServices struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (apiServices) NamespaceScoped() bool          { return false }
func (apiServices) AllowCreateOnUpdate() bool      { return false }
func (apiServices) AllowUnconditionalUpdate() bool { return false }
func (apiServices) Canonicalize(runtime.Object)    {}

func (apiServices) PrepareForCreate(_ context.Context, obj runtime.Object) {
	s := obj.(*apiregistration.APIService)
	s.Status = apiregistration.APIServiceStatus{}
	if s.Spec.Service == nil {
		apiregistration.SetAPIServiceCondition(s, apiregistration.NewLocalAvailableAPIServiceCondition())
	}
}

func (apiServices) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	obj.(*apiregistration.APIService).Status = old.(*apiregistration.APIService).Status
}

func (apiServices) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validation.ValidateAPIService(obj.(*apiregistration.APIService))
}

func (apiServices) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateAPIServiceUpdate(obj.(*apiregistration.APIService), old.(*apiregistration.APIService))
}

func (apiServices) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (apiServices) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// apiServiceStatus updates nothing but the status.
type apiServiceStatus struct{ apiServices }

func (apiServiceStatus) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	now, before := obj.(*apiregistration.APIService), old.(*apiregistration.APIService)
	now.Spec = before.Spec
	now.Labels, now.Annotations = before.Labels, before.Annotations
	now.Finalizers, now.OwnerReferences = before.Finalizers, before.OwnerReferences
}

func (apiServiceStatus) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateAPIServiceStatusUpdate(obj.(*apiregistration.APIService), old.(*apiregistration.APIService))
}
