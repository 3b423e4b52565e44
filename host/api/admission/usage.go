package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	qoshelper "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/utils/ptr"
)

// What one object takes of a quota, in the names that quotas use.

const (
	countPrefix     = "count/"
	requestsPrefix  = "requests."
	limitsPrefix    = "limits."
	classSuffix     = ".storageclass.storage.k8s.io/"
	hugePagesPrefix = "hugepages-"
)

// plainCounts are resources that are counted under their own name too.
var plainCounts = []string{"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"}

// ownerOf is the resource whose objects use up what a quota names.
func ownerOf(name corev1.ResourceName) string {
	text := string(name)
	if counted, ok := strings.CutPrefix(text, countPrefix); ok {
		return counted
	}
	if slices.Contains(plainCounts, text) {
		return text
	}
	switch {
	case strings.HasPrefix(text, "services."):
		return "services"
	case text == "requests.storage", strings.Contains(text, classSuffix):
		return "persistentvolumeclaims"
	}
	return "pods"
}

func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

func usageOf(name string, obj store.Object, now time.Time) corev1.ResourceList {
	usage := corev1.ResourceList{corev1.ResourceName(countPrefix + name): one()}
	switch obj := obj.(type) {
	case *corev1.Pod:
		podUsage(usage, obj, now)
		return usage
	case *corev1.Service:
		serviceUsage(usage, obj)
	case *corev1.PersistentVolumeClaim:
		claimUsage(usage, obj)
	}
	if slices.Contains(plainCounts, name) {
		usage[corev1.ResourceName(name)] = one()
	}
	return usage
}

// podUsage counts a pod as long as it has not ended, and ought not to have: one
// that a lost node never ends must not take the room of those in its place.
func podUsage(usage corev1.ResourceList, pod *corev1.Pod, now time.Time) {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return
	}
	if last, ending := countsUntil(pod); ending && now.After(last) {
		return
	}
	usage[corev1.ResourcePods] = one()
	compute(usage,
		resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true}),
		resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true}))
}

// countsUntil is when a pod that is being deleted counts last, as Kubernetes has
// it: once more its grace after the time by which it should be gone.
func countsUntil(obj store.Object) (last time.Time, ending bool) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return time.Time{}, false
	}
	return pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second), true
}

// compute names requests and limits as quotas do: cpu and memory also without
// a prefix, devices by their requests alone.
func compute(usage, requests, limits corev1.ResourceList) {
	for name, value := range requests {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			usage[name] = value
			usage[requestsPrefix+name] = value
		default:
			if strings.HasPrefix(string(name), hugePagesPrefix) {
				usage[name] = value
			}
			usage[requestsPrefix+name] = value
		}
	}
	for name, value := range limits {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			usage[limitsPrefix+name] = value
		}
	}
}

func serviceUsage(usage corev1.ResourceList, service *corev1.Service) {
	ports := int64(len(service.Spec.Ports))
	none := service.Spec.AllocateLoadBalancerNodePorts != nil && !*service.Spec.AllocateLoadBalancerNodePorts
	nodePorts, balancers := int64(0), int64(0)
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		nodePorts = ports
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		nodePorts = ports
		if none {
			nodePorts = 0
			for _, port := range service.Spec.Ports {
				if port.NodePort != 0 {
					nodePorts++
				}
			}
		}
	}
	usage[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(nodePorts, resource.DecimalSI)
	usage[corev1.ResourceServicesLoadBalancers] = *resource.NewQuantity(balancers, resource.DecimalSI)
}

func claimUsage(usage corev1.ResourceList, claim *corev1.PersistentVolumeClaim) {
	class, found := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if !found && claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	if class != "" {
		usage[corev1.ResourceName(class+classSuffix+"persistentvolumeclaims")] = one()
	}
	storage, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return
	}
	if allocated, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(storage) > 0 {
		storage = allocated
	}
	usage[corev1.ResourceRequestsStorage] = storage
	if class != "" {
		usage[corev1.ResourceName(class+classSuffix+"requests.storage")] = storage
	}
}

// mustName are the resources that a pod has to speak of where a quota does.
var mustName = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

// unnamed tells what containers leave open that the quota bounds.
func unnamed(hard corev1.ResourceList, pod *corev1.Pod) error {
	missing := map[corev1.ResourceName][]string{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		named := corev1.ResourceList{}
		compute(named, c.Resources.Requests, c.Resources.Limits)
		for _, name := range mustName {
			if _, bounded := hard[name]; !bounded {
				continue
			}
			if _, ok := named[name]; !ok && !namedByPod(pod, name) {
				missing[name] = append(missing[name], c.Name)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var texts []string
	for name, containers := range missing {
		slices.Sort(containers)
		texts = append(texts, fmt.Sprintf("%s for: %s", name, strings.Join(containers, ",")))
	}
	slices.Sort(texts)
	return fmt.Errorf("must specify %s", strings.Join(texts, "; "))
}

func namedByPod(pod *corev1.Pod, name corev1.ResourceName) bool {
	if pod.Spec.Resources == nil {
		return false
	}
	named := corev1.ResourceList{}
	compute(named, pod.Spec.Resources.Requests, pod.Spec.Resources.Limits)
	_, ok := named[name]
	return ok
}

// inScope tells whether the quota is about the object at all. Quotas with
// scopes are about pods or claims.
func inScope(quota *corev1.ResourceQuota, obj store.Object) bool {
	for _, scope := range quota.Spec.Scopes {
		if !meets(obj, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	if quota.Spec.ScopeSelector == nil {
		return true
	}
	for _, selector := range quota.Spec.ScopeSelector.MatchExpressions {
		if !meets(obj, selector) {
			return false
		}
	}
	return true
}

func meets(obj store.Object, selector corev1.ScopedResourceSelectorRequirement) bool {
	switch o := obj.(type) {
	case *corev1.Pod:
		return podInScope(o, selector)
	case *corev1.PersistentVolumeClaim:
		return claimInScope(o, selector)
	}
	return false
}

// claimInScope goes by the classes of attributes that a claim asks for, has, or is
// about to get: one that meets the selector is enough.
func claimInScope(claim *corev1.PersistentVolumeClaim, selector corev1.ScopedResourceSelectorRequirement) bool {
	if selector.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false
	}
	names := []string{ptr.Deref(claim.Spec.VolumeAttributesClassName, ""), ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "")}
	if m := claim.Status.ModifyVolumeStatus; m != nil {
		names = append(names, m.TargetVolumeAttributesClassName)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	if len(names) == 0 {
		return selected(selector, "")
	}
	return slices.ContainsFunc(names, func(name string) bool { return selected(selector, name) })
}

func podInScope(pod *corev1.Pod, selector corev1.ScopedResourceSelectorRequirement) bool {
	terminating := pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
	bestEffort := func() bool { return qoshelper.GetPodQOS(pod) == corev1.PodQOSBestEffort }
	switch selector.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort()
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort()
	case corev1.ResourceQuotaScopePriorityClass:
		return selected(selector, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod)
	}
	return false
}

func selected(selector corev1.ScopedResourceSelectorRequirement, value string) bool {
	listed := value != "" && slices.Contains(selector.Values, value)
	switch selector.Operator {
	case corev1.ScopeSelectorOpIn:
		return listed
	case corev1.ScopeSelectorOpNotIn:
		return !listed
	case corev1.ScopeSelectorOpExists:
		return value != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return value == ""
	}
	return false
}

func crossesNamespaces(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	weighted := func(all []corev1.WeightedPodAffinityTerm) {
		for _, term := range all {
			terms = append(terms, term.PodAffinityTerm)
		}
	}
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted(a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		terms = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted(a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(term corev1.PodAffinityTerm) bool {
		return len(term.Namespaces) > 0 || term.NamespaceSelector != nil
	})
}
