package kind

import (
	"strconv"

	"github.com/berth-dev/berth/host/store"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
)

var (
	partVerbs    = []string{"get", "patch", "update"}
	streamVerbs  = []string{"create", "get"}
	proxyVerbs   = []string{"create", "delete", "get", "patch", "update"}
	coreV1       = []schema.GroupVersion{corev1.SchemeGroupVersion}
	inAll        = []string{"all"}
	scaleBody    = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	evictionBody = policyv1.SchemeGroupVersion.WithKind("Eviction")
	bindingBody  = corev1.SchemeGroupVersion.WithKind("Binding")
	tokenBody    = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
)

func statusPart(s rest.RESTUpdateStrategy) Subresource {
	return Subresource{Name: "status", Verbs: partVerbs, Strategy: s}
}

func scalePart() Subresource {
	return Subresource{Name: "scale", Verbs: partVerbs, Body: scaleBody}
}

func stream(name string, verbs []string, options string) Subresource {
	return Subresource{Name: name, Verbs: verbs, Connect: true, Body: corev1.SchemeGroupVersion.WithKind(options)}
}

func coreKinds() []Kind {
	return []Kind{
		{Name: "Binding", Resource: "bindings", Served: coreV1, Namespaced: true, Verbs: []string{"create"}},
		{Name: "ConfigMap", Resource: "configmaps", Served: coreV1, Namespaced: true, Short: []string{"cm"}, Strategy: configMaps},
		{Name: "Endpoints", Resource: "endpoints", Singular: "endpoints", Served: coreV1, Namespaced: true, Short: []string{"ep"}, Strategy: endpoints, MaxParts: 10000},
		{Name: "LimitRange", Resource: "limitranges", Served: coreV1, Namespaced: true, Short: []string{"limits"}, Strategy: limitrange.Strategy},
		{Name: "Namespace", ShowsDeleted: true, Resource: "namespaces", Served: coreV1, Short: []string{"ns"}, Strategy: namespaces,
			Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"},
			Field: namespaceField,
			Subresources: []Subresource{
				{Name: "finalize", Verbs: []string{"update"}, Strategy: namespaceFinalize},
				statusPart(namespaceStatus),
			}},
		{Name: "Node", Resource: "nodes", Served: coreV1, Short: []string{"no"}, Strategy: nodes, Field: nodeField,
			Subresources: []Subresource{stream("proxy", proxyVerbs, "NodeProxyOptions"), statusPart(nodeStatus)}},
		{Name: "PersistentVolumeClaim", ShowsDeleted: true, Resource: "persistentvolumeclaims", Served: coreV1, Namespaced: true, Short: []string{"pvc"},
			Strategy: claims, Field: nameField, Subresources: []Subresource{statusPart(claimStatus)}},
		{Name: "PersistentVolume", ShowsDeleted: true, Resource: "persistentvolumes", Served: coreV1, Short: []string{"pv"},
			Strategy: volumes, Field: nameField, Subresources: []Subresource{statusPart(volumeStatus)}},
		podKind(),
		{Name: "PodTemplate", ShowsDeleted: true, Resource: "podtemplates", Served: coreV1, Namespaced: true, Strategy: podtemplate.Strategy},
		{Name: "ReplicationController", Resource: "replicationcontrollers", Served: coreV1, Namespaced: true, Short: []string{"rc"}, Categories: inAll,
			Strategy: replicationControllers, Field: rcField, Scale: rcScale, OrphanByDefault: true,
			Subresources: []Subresource{scalePart(), statusPart(replicationControllerStatus)}},
		{Name: "ResourceQuota", ShowsDeleted: true, Resource: "resourcequotas", Served: coreV1, Namespaced: true, Short: []string{"quota"},
			Strategy: resourcequota.Strategy, Subresources: []Subresource{statusPart(resourcequota.StatusStrategy)}},
		{Name: "Secret", Resource: "secrets", Served: coreV1, Namespaced: true, Strategy: secrets, Field: secretField},
		{Name: "ServiceAccount", ShowsDeleted: true, Resource: "serviceaccounts", Served: coreV1, Namespaced: true, Short: []string{"sa"}, Strategy: serviceaccount.Strategy,
			Subresources: []Subresource{{Name: "token", Verbs: []string{"create"}, Body: tokenBody}}},
		{Name: "Service", ShowsDeleted: true, Resource: "services", Served: coreV1, Namespaced: true, Short: []string{"svc"}, Categories: inAll, Strategy: services, Field: serviceField,
			Subresources: []Subresource{stream("proxy", proxyVerbs, "ServiceProxyOptions"), statusPart(serviceStatus)}},
	}
}

func podKind() Kind {
	return Kind{
		Name: "Pod", ShowsDeleted: true, Resource: "pods", Served: coreV1, Namespaced: true, Short: []string{"po"}, Categories: inAll,
		Strategy: pods, Field: podField, Replicas: newReplicas(),
		Subresources: []Subresource{
			stream("attach", streamVerbs, "PodAttachOptions"),
			{Name: "binding", Verbs: []string{"create"}, Body: bindingBody},
			{Name: "ephemeralcontainers", Verbs: partVerbs, Strategy: podEphemeral},
			{Name: "eviction", Verbs: []string{"create"}, Body: evictionBody},
			stream("exec", streamVerbs, "PodExecOptions"),
			stream("explain", []string{"get"}, "Pod"),
			{Name: "log", Verbs: []string{"get"}, Connect: true},
			stream("portforward", streamVerbs, "PodPortForwardOptions"),
			stream("proxy", proxyVerbs, "PodProxyOptions"),
			{Name: "resize", Verbs: partVerbs, Strategy: podResize},
			statusPart(podStatus),
		},
	}
}

func eventKinds() []Kind {
	return []Kind{{
		Name: "Event", Resource: "events", Served: []schema.GroupVersion{corev1.SchemeGroupVersion, eventsv1.SchemeGroupVersion},
		Namespaced: true, Short: []string{"ev"}, Strategy: events, Field: eventField,
	}}
}

// nameField serves the label "name", a bug of old that clients rely on.
func nameField(obj store.Object, label string) string {
	if label == "name" {
		return obj.GetName()
	}
	return ""
}

func namespaceField(obj store.Object, label string) string {
	if label == "status.phase" {
		return string(obj.(*corev1.Namespace).Status.Phase)
	}
	return nameField(obj, label)
}

func nodeField(obj store.Object, label string) string {
	if label == "spec.unschedulable" {
		return strconv.FormatBool(obj.(*corev1.Node).Spec.Unschedulable)
	}
	return ""
}

func podField(obj store.Object, label string) string {
	pod := obj.(*corev1.Pod)
	switch label {
	case "spec.nodeName":
		return pod.Spec.NodeName
	case "spec.restartPolicy":
		return string(pod.Spec.RestartPolicy)
	case "spec.schedulerName":
		return pod.Spec.SchedulerName
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName
	case "spec.hostNetwork":
		return strconv.FormatBool(pod.Spec.HostNetwork)
	case "status.phase":
		return string(pod.Status.Phase)
	case "status.podIP":
		if len(pod.Status.PodIPs) > 0 {
			return pod.Status.PodIPs[0].IP
		}
		return pod.Status.PodIP
	case "status.nominatedNodeName":
		return pod.Status.NominatedNodeName
	}
	return ""
}

func rcField(obj store.Object, label string) string {
	if label == "status.replicas" {
		return strconv.Itoa(int(obj.(*corev1.ReplicationController).Status.Replicas))
	}
	return ""
}

func secretField(obj store.Object, label string) string {
	if label == "type" {
		return string(obj.(*corev1.Secret).Type)
	}
	return ""
}

func serviceField(obj store.Object, label string) string {
	s := obj.(*corev1.Service)
	switch label {
	case "spec.clusterIP":
		return s.Spec.ClusterIP
	case "spec.type":
		return string(s.Spec.Type)
	}
	return ""
}

// eventField knows the labels of core/v1; the conversion of events.k8s.io/v1
// maps its own onto them.
func eventField(obj store.Object, label string) string {
	e := obj.(*corev1.Event)
	switch label {
	case "involvedObject.kind":
		return e.InvolvedObject.Kind
	case "involvedObject.namespace":
		return e.InvolvedObject.Namespace
	case "involvedObject.name":
		return e.InvolvedObject.Name
	case "involvedObject.uid":
		return string(e.InvolvedObject.UID)
	case "involvedObject.apiVersion":
		return e.InvolvedObject.APIVersion
	case "involvedObject.resourceVersion":
		return e.InvolvedObject.ResourceVersion
	case "involvedObject.fieldPath":
		return e.InvolvedObject.FieldPath
	case "reason":
		return e.Reason
	case "reportingComponent":
		return e.ReportingController
	case "source":
		if e.Source.Component != "" {
			return e.Source.Component
		}
		return e.ReportingController
	case "type":
		return e.Type
	}
	return ""
}
