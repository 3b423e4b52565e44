package kind

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	serviceutil "k8s.io/kubernetes/pkg/api/service"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/utils/ptr"
)

var services = typed(rules[*core.Service]{
	createOnUpdate: true,
	onCreate:       func(_ context.Context, s *core.Service) { s.Status = core.ServiceStatus{} },
	onUpdate: func(_ context.Context, s, old *core.Service) {
		s.Status = old.Status
		dropForType(s, old)
	},
	validate: func(_ context.Context, s *core.Service) field.ErrorList {
		return validation.ValidateServiceCreate(s)
	},
	validateUpdate: func(_ context.Context, s, old *core.Service) field.ErrorList {
		return validation.ValidateServiceUpdate(s, old)
	},
	warnCreate: func(_ context.Context, s *core.Service) []string { return warnService(s, nil) },
	warnUpdate: func(_ context.Context, s, old *core.Service) []string { return warnService(s, old) },
})

// warnService warns as Kubernetes does, and of hints by topology, which nobody gives.
func warnService(s, old *core.Service) []string {
	warnings := serviceutil.GetWarningsForService(s, old)
	for _, key := range []string{core.AnnotationTopologyMode, core.DeprecatedAnnotationTopologyAwareHints} {
		if mode := s.Annotations[key]; mode == "Auto" || mode == "auto" {
			warnings = append(warnings, "annotation "+key+" has no effect here: use spec.trafficDistribution")
		}
	}
	return warnings
}

var serviceStatus = typed(rules[*core.Service]{
	onUpdate: func(_ context.Context, s, old *core.Service) { s.Spec = old.Spec },
	validateUpdate: func(_ context.Context, s, old *core.Service) field.ErrorList {
		return validation.ValidateServiceStatusUpdate(s, old)
	},
})

// dropForType clears what a service of the new type cannot have, where it is
// what the old type left there and not what the user now asks for.
func dropForType(s, old *core.Service) {
	if hasClusterIP(old) && !hasClusterIP(s) {
		dropAddresses(s, old)
	}
	if hasNodePorts(old) && !hasNodePorts(s) && addsNoNodePort(s, old) {
		for i := range s.Spec.Ports {
			s.Spec.Ports[i].NodePort = 0
		}
	}
	if hasHealthPort(old) && !hasHealthPort(s) && old.Spec.HealthCheckNodePort == s.Spec.HealthCheckNodePort {
		s.Spec.HealthCheckNodePort = 0
	}
	if serviceutil.ExternallyAccessible(old) && !serviceutil.ExternallyAccessible(s) && old.Spec.ExternalTrafficPolicy == s.Spec.ExternalTrafficPolicy {
		s.Spec.ExternalTrafficPolicy = ""
	}
	dropBalancer(s, old)
}

func dropAddresses(s, old *core.Service) {
	if old.Spec.ClusterIP == s.Spec.ClusterIP && slices.Equal(old.Spec.ClusterIPs, s.Spec.ClusterIPs) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	}
	if slices.Equal(old.Spec.IPFamilies, s.Spec.IPFamilies) {
		s.Spec.IPFamilies = nil
	}
	if reflect.DeepEqual(old.Spec.IPFamilyPolicy, s.Spec.IPFamilyPolicy) {
		s.Spec.IPFamilyPolicy = nil
	}
}

func dropBalancer(s, old *core.Service) {
	if s.Spec.Type == core.ServiceTypeLoadBalancer {
		return
	}
	s.Status.LoadBalancer = core.LoadBalancerStatus{}
	if old.Spec.Type != core.ServiceTypeLoadBalancer {
		return
	}
	if reflect.DeepEqual(old.Spec.AllocateLoadBalancerNodePorts, s.Spec.AllocateLoadBalancerNodePorts) {
		s.Spec.AllocateLoadBalancerNodePorts = nil
	}
	if reflect.DeepEqual(old.Spec.LoadBalancerClass, s.Spec.LoadBalancerClass) {
		s.Spec.LoadBalancerClass = nil
	}
}

func hasClusterIP(s *core.Service) bool { return s.Spec.Type != core.ServiceTypeExternalName }

func hasNodePorts(s *core.Service) bool {
	return s.Spec.Type == core.ServiceTypeNodePort ||
		s.Spec.Type == core.ServiceTypeLoadBalancer && ptr.Deref(s.Spec.AllocateLoadBalancerNodePorts, true)
}

func hasHealthPort(s *core.Service) bool {
	return s.Spec.Type == core.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal
}

func addsNoNodePort(s, old *core.Service) bool {
	had := map[int32]bool{0: true}
	for _, p := range old.Spec.Ports {
		had[p.NodePort] = true
	}
	return !slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return !had[p.NodePort] })
}
