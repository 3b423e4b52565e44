package kind

import (
	"strconv"

	"github.com/berth-dev/berth/host/store"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

func served(gvs ...schema.GroupVersion) []schema.GroupVersion { return gvs }

func appsKinds() []Kind {
	v1 := served(appsv1.SchemeGroupVersion)
	return []Kind{
		{Name: "ControllerRevision", Resource: "controllerrevisions", Served: v1, Namespaced: true, Strategy: controllerrevision.Strategy},
		{Name: "DaemonSet", Resource: "daemonsets", Served: v1, Namespaced: true, Short: []string{"ds"}, Categories: inAll,
			Strategy: daemonset.Strategy, Subresources: []Subresource{statusPart(daemonset.StatusStrategy)}},
		{Name: "Deployment", Resource: "deployments", Served: v1, Namespaced: true, Short: []string{"deploy"}, Categories: inAll,
			Strategy: deployment.Strategy, Scale: deploymentScale,
			Subresources: []Subresource{scalePart(), statusPart(deployment.StatusStrategy)}},
		{Name: "ReplicaSet", Resource: "replicasets", Served: v1, Namespaced: true, Short: []string{"rs"}, Categories: inAll,
			Strategy: replicaSets, Field: replicaSetField, Scale: replicaSetScale,
			Subresources: []Subresource{scalePart(), statusPart(replicaSetStatus)}},
		{Name: "StatefulSet", Resource: "statefulsets", Served: v1, Namespaced: true, Short: []string{"sts"}, Categories: inAll,
			Strategy: statefulset.Strategy, Scale: statefulSetScale,
			Subresources: []Subresource{scalePart(), statusPart(statefulset.StatusStrategy)}},
	}
}

func replicaSetField(obj store.Object, label string) string {
	if label == "status.replicas" {
		return strconv.Itoa(int(obj.(*appsv1.ReplicaSet).Status.Replicas))
	}
	return ""
}

func batchKinds() []Kind {
	v1 := served(batchv1.SchemeGroupVersion)
	return []Kind{
		{Name: "CronJob", Resource: "cronjobs", Served: v1, Namespaced: true, Short: []string{"cj"}, Categories: inAll,
			Strategy: cronjob.Strategy, Subresources: []Subresource{statusPart(cronjob.StatusStrategy)}},
		{Name: "Job", Resource: "jobs", Served: v1, Namespaced: true, Categories: inAll,
			Strategy: jobs, Field: jobField, OrphanByDefault: true, DefaultAgain: true, Subresources: []Subresource{statusPart(jobStatus)}},
	}
}

func jobField(obj store.Object, label string) string {
	if label == "status.successful" {
		return strconv.Itoa(int(obj.(*batchv1.Job).Status.Succeeded))
	}
	return ""
}

func autoscalingKinds() []Kind {
	return []Kind{{
		Name: "HorizontalPodAutoscaler", Resource: "horizontalpodautoscalers",
		Served:     served(autoscalingv2.SchemeGroupVersion, autoscalingv1.SchemeGroupVersion),
		Namespaced: true, Short: []string{"hpa"}, Categories: inAll,
		Strategy:     horizontalpodautoscaler.Strategy,
		Subresources: []Subresource{statusPart(horizontalpodautoscaler.StatusStrategy)},
	}}
}

func policyKinds() []Kind {
	return []Kind{{
		Name: "PodDisruptionBudget", Resource: "poddisruptionbudgets", Served: served(policyv1.SchemeGroupVersion),
		Namespaced: true, Short: []string{"pdb"}, Strategy: poddisruptionbudget.Strategy, CopyToConvert: true,
		Subresources: []Subresource{statusPart(poddisruptionbudget.StatusStrategy)},
	}}
}

func networkingKinds() []Kind {
	v1 := served(networkingv1.SchemeGroupVersion)
	return []Kind{
		{Name: "IngressClass", Resource: "ingressclasses", Served: v1, Strategy: ingressclass.Strategy},
		{Name: "Ingress", Resource: "ingresses", Served: v1, Namespaced: true, Short: []string{"ing"}, Strategy: ingress.Strategy,
			Subresources: []Subresource{statusPart(ingress.StatusStrategy)}},
		{Name: "IPAddress", Resource: "ipaddresses", Served: v1, Short: []string{"ip"}, Strategy: ipaddress.Strategy},
		{Name: "NetworkPolicy", Resource: "networkpolicies", Served: v1, Namespaced: true, Short: []string{"netpol"}, Strategy: networkpolicy.Strategy},
		{Name: "ServiceCIDR", Resource: "servicecidrs", Served: v1, Strategy: servicecidr.Strategy,
			Subresources: []Subresource{statusPart(servicecidr.StatusStrategy)}},
	}
}

func schedulingKinds() []Kind {
	return []Kind{{
		Name: "PriorityClass", Resource: "priorityclasses", Served: served(schedulingv1.SchemeGroupVersion),
		Short: []string{"pc"}, Strategy: priorityclass.Strategy,
	}}
}

func nodeKinds() []Kind {
	return []Kind{{Name: "RuntimeClass", Resource: "runtimeclasses", Served: served(nodev1.SchemeGroupVersion), Strategy: runtimeclass.Strategy}}
}

func storageKinds() []Kind {
	v1 := served(storagev1.SchemeGroupVersion)
	return []Kind{
		{Name: "CSIDriver", ShowsDeleted: true, Resource: "csidrivers", Served: v1, Strategy: csidriver.Strategy},
		{Name: "CSINode", ShowsDeleted: true, Resource: "csinodes", Served: v1, Strategy: csinode.Strategy},
		{Name: "CSIStorageCapacity", Resource: "csistoragecapacities", Served: v1, Namespaced: true, Strategy: csistoragecapacity.Strategy},
		{Name: "StorageClass", ShowsDeleted: true, Resource: "storageclasses", Served: v1, Short: []string{"sc"}, Strategy: storageclass.Strategy},
		{Name: "VolumeAttachment", ShowsDeleted: true, Resource: "volumeattachments", Served: v1, Strategy: volumeattachment.Strategy,
			Subresources: []Subresource{statusPart(volumeattachment.StatusStrategy)}},
	}
}

func discoveryKinds() []Kind {
	return []Kind{{Name: "EndpointSlice", Resource: "endpointslices", Served: served(discoveryv1.SchemeGroupVersion), Namespaced: true, Strategy: endpointSlices}}
}

func coordinationKinds() []Kind {
	return []Kind{{Name: "Lease", Resource: "leases", Served: served(coordinationv1.SchemeGroupVersion), Namespaced: true, Strategy: lease.Strategy}}
}

// manyRules are more than others have: roles and bindings list whole companies.
const manyRules = 10000

func rbacKinds() []Kind {
	v1 := served(rbacv1.SchemeGroupVersion)
	return []Kind{
		{Name: "ClusterRoleBinding", Resource: "clusterrolebindings", Served: v1, Strategy: clusterrolebinding.Strategy, MaxParts: manyRules},
		{Name: "ClusterRole", Resource: "clusterroles", Served: v1, Strategy: clusterrole.Strategy, MaxParts: manyRules},
		{Name: "RoleBinding", Resource: "rolebindings", Served: v1, Namespaced: true, Strategy: rolebinding.Strategy, MaxParts: manyRules},
		{Name: "Role", Resource: "roles", Served: v1, Namespaced: true, Strategy: role.Strategy, MaxParts: manyRules},
	}
}

// reviewKinds are asked and answered, and never stored.
func reviewKinds() []Kind {
	ask := []string{"create"}
	authn, authz := served(authenticationv1.SchemeGroupVersion), served(authorizationv1.SchemeGroupVersion)
	return []Kind{
		{Name: "SelfSubjectReview", Resource: "selfsubjectreviews", Served: authn, Verbs: ask},
		{Name: "TokenReview", Resource: "tokenreviews", Served: authn, Verbs: ask},
		{Name: "LocalSubjectAccessReview", Resource: "localsubjectaccessreviews", Served: authz, Verbs: ask, Namespaced: true},
		{Name: "SelfSubjectAccessReview", Resource: "selfsubjectaccessreviews", Served: authz, Verbs: ask},
		{Name: "SelfSubjectRulesReview", Resource: "selfsubjectrulesreviews", Served: authz, Verbs: ask},
		{Name: "SubjectAccessReview", Resource: "subjectaccessreviews", Served: authz, Verbs: ask},
	}
}

// metricsKinds are read from what node agents report.
func metricsKinds() []Kind {
	read, v1beta1 := []string{"get", "list"}, served(metricsv1beta1.SchemeGroupVersion)
	return []Kind{
		{Name: "NodeMetrics", Resource: "nodes", Singular: "nodemetrics", Served: v1beta1, Verbs: read},
		{Name: "PodMetrics", Resource: "pods", Singular: "podmetrics", Served: v1beta1, Verbs: read, Namespaced: true},
	}
}
