package kind

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/discovery"
	discoveryvalidation "k8s.io/kubernetes/pkg/apis/discovery/validation"
)

var endpoints = typed(rules[*core.Endpoints]{
	createOnUpdate: true,
	validate: func(_ context.Context, e *core.Endpoints) field.ErrorList {
		return validation.ValidateEndpointsCreate(e)
	},
	validateUpdate: func(_ context.Context, e, old *core.Endpoints) field.ErrorList {
		return validation.ValidateEndpointsUpdate(e, old)
	},
	warnCreate: func(_ context.Context, e *core.Endpoints) []string { return warnEndpoints(e) },
	warnUpdate: func(_ context.Context, e, _ *core.Endpoints) []string { return warnEndpoints(e) },
})

func warnEndpoints(e *core.Endpoints) []string {
	var warnings []string
	warn := func(path *field.Path, addresses []core.EndpointAddress) {
		for i, a := range addresses {
			warnings = append(warnings, utilvalidation.GetWarningsForIP(path.Index(i).Child("ip"), a.IP)...)
		}
	}
	for i, subset := range e.Subsets {
		path := field.NewPath("subsets").Index(i)
		warn(path.Child("addresses"), subset.Addresses)
		warn(path.Child("notReadyAddresses"), subset.NotReadyAddresses)
	}
	return warnings
}

var endpointSlices = typed(rules[*discovery.EndpointSlice]{
	onCreate: func(_ context.Context, s *discovery.EndpointSlice) {
		s.Generation = 1
		dropTopology(s)
	},
	onUpdate: func(_ context.Context, s, old *discovery.EndpointSlice) {
		if !apiequality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
			dropTopology(s)
		}
		if sliceChanged(s, old) {
			s.Generation = old.Generation + 1
		}
	},
	validate: func(_ context.Context, s *discovery.EndpointSlice) field.ErrorList {
		return discoveryvalidation.ValidateEndpointSliceCreate(s)
	},
	validateUpdate: func(_ context.Context, s, old *discovery.EndpointSlice) field.ErrorList {
		return discoveryvalidation.ValidateEndpointSliceUpdate(s, old)
	},
	warnCreate: func(_ context.Context, s *discovery.EndpointSlice) []string {
		if s.AddressType != discovery.AddressTypeFQDN {
			return warnSlice(s)
		}
		return append([]string{"spec.addressType: FQDN endpoints are deprecated"}, warnSlice(s)...)
	},
	warnUpdate: func(_ context.Context, s, _ *discovery.EndpointSlice) []string { return warnSlice(s) },
})

// dropTopology drops a field that discovery.k8s.io/v1 reads and never writes.
func dropTopology(s *discovery.EndpointSlice) {
	for i := range s.Endpoints {
		s.Endpoints[i].DeprecatedTopology = nil
	}
}

// sliceChanged ignores metadata but labels.
func sliceChanged(s, old *discovery.EndpointSlice) bool {
	equal := apiequality.Semantic.DeepEqual
	return s.AddressType != old.AddressType || !equal(s.Endpoints, old.Endpoints) ||
		!equal(s.Ports, old.Ports) || !equal(s.Labels, old.Labels)
}

// warnSlice trusts the addresses of those who manage slices by program.
func warnSlice(s *discovery.EndpointSlice) []string {
	if s.Labels[discoveryv1.LabelManagedBy] != "" {
		return nil
	}
	var warnings []string
	for i, e := range s.Endpoints {
		for j, address := range e.Addresses {
			path := field.NewPath("endpoints").Index(i).Child("addresses").Index(j)
			warnings = append(warnings, utilvalidation.GetWarningsForIP(path, address)...)
		}
	}
	return warnings
}
