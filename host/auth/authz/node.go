package authz

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// nodeUserPrefix begins the names of machines.
const nodeUserPrefix = "system:node:"

// NodeUser is the identity of the machine called node.
func NodeUser(node string) string { return nodeUserPrefix + node }

// NodeOf tells which machine somebody is: a member of system:nodes whose name
// says which one.
func NodeOf(who user.Info) (node string, ok bool) {
	node, ok = strings.CutPrefix(who.GetName(), nodeUserPrefix)
	if !ok || node == "" {
		return "", false
	}
	for _, group := range who.GetGroups() {
		if group == user.NodesGroup {
			return node, true
		}
	}
	return "", false
}

// nodeRules confine a machine: to its Node, Lease and CSINode, to the pods that
// are bound to it, and to what these refer to. It may read the certificates of
// Ingresses, too, but only of those that node agents answer for.
type nodeRules struct {
	objects   view.Objects
	placement Placement
	general   []rbacv1.PolicyRule
}

func newNodeRules(objects view.Objects, placement Placement) *nodeRules {
	return &nodeRules{objects: objects, placement: placement, general: generalNodeRules()}
}

// generalNodeRules are Kubernetes' for a kubelet, and what its service proxy
// and its network may read under their own names there: a Berth node agent is
// all three.
func generalNodeRules() []rbacv1.PolicyRule {
	return append(bootstrappolicy.NodeRules(),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "endpoints", "namespaces"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies", "ingresses", "ingressclasses"}, Verbs: []string{"get", "list", "watch"}},
		// Of others' pods no more than labels, addresses and ports.
		rbacv1.PolicyRule{NonResourceURLs: []string{"/berth/v1/peers"}, Verbs: []string{"get"}},
	)
}

func (n *nodeRules) allow(ctx context.Context, node string, ask authorizer.Attributes) (allowed bool, reason string, err error) {
	if !ask.IsResourceRequest() {
		return rbac.RulesAllow(ask, n.general...), "", nil
	}
	switch ask.GetAPIGroup() + "/" + ask.GetResource() {
	case "/secrets", "/configmaps":
		return n.related(ctx, node, ask, "get", "list", "watch")
	case "/persistentvolumeclaims":
		if ask.GetSubresource() == "status" {
			return n.referred(ctx, node, ask, oneOf(ask.GetVerb(), "update", "patch"))
		}
		return n.related(ctx, node, ask, "get")
	case "/persistentvolumes", "storage.k8s.io/volumeattachments":
		return n.related(ctx, node, ask, "get")
	case "/serviceaccounts":
		if ask.GetSubresource() == "token" {
			return n.referred(ctx, node, ask, ask.GetVerb() == "create")
		}
		return n.related(ctx, node, ask, "get", "list", "watch")
	case "/pods":
		return n.pods(ctx, node, ask)
	case "/nodes":
		return ownNode(ask)
	case "coordination.k8s.io/leases":
		return ownLease(node, ask)
	case "storage.k8s.io/csinodes":
		return ownCSINode(node, ask)
	}
	return rbac.RulesAllow(ask, n.general...), "", nil
}

func oneOf(verb string, verbs ...string) bool {
	for _, v := range verbs {
		if v == verb {
			return true
		}
	}
	return false
}

// related allows the verbs on one whole object that the node's pods refer to.
func (n *nodeRules) related(ctx context.Context, node string, ask authorizer.Attributes, verbs ...string) (bool, string, error) {
	return n.referred(ctx, node, ask, ask.GetSubresource() == "" && oneOf(ask.GetVerb(), verbs...))
}

func (n *nodeRules) referred(ctx context.Context, node string, ask authorizer.Attributes, fits bool) (bool, string, error) {
	if !fits {
		return false, fmt.Sprintf("a node may not %s %s", ask.GetVerb(), ask.GetResource()), nil
	}
	if ask.GetName() == "" {
		return false, fmt.Sprintf("a node may read %s one by one only", ask.GetResource()), nil
	}
	pods, err := n.placement.PodsOn(ctx, node)
	if err != nil {
		return false, "", fmt.Errorf("look up the pods of node %s: %w", node, err)
	}
	if n.reaches(ctx, node, pods, ask) {
		return true, "", nil
	}
	return false, fmt.Sprintf("no relationship found between node '%s' and this object", node), nil
}

// reaches tells whether one of the pods refers to the object, perhaps by way of
// a claim and its volume.
func (n *nodeRules) reaches(ctx context.Context, node string, pods []*corev1.Pod, ask authorizer.Attributes) bool {
	namespace, name := ask.GetNamespace(), ask.GetName()
	switch ask.GetResource() {
	case "volumeattachments":
		va, err := view.Get[*storagev1.VolumeAttachment](ctx, n.objects, view.Attachments, "", name)
		return err == nil && va.Spec.NodeName == node
	case "persistentvolumes":
		return n.claimedVolume(ctx, pods, func(pv *corev1.PersistentVolume) bool { return pv.Name == name })
	case "configmaps":
		return anyPod(pods, namespace, func(pod *corev1.Pod) bool {
			return visits(podutil.VisitPodConfigmapNames, pod, name)
		})
	case "serviceaccounts":
		return anyPod(pods, namespace, func(pod *corev1.Pod) bool { return pod.Spec.ServiceAccountName == name })
	case "persistentvolumeclaims":
		return anyPod(pods, namespace, func(pod *corev1.Pod) bool { return hasClaim(pod, name) })
	case "secrets":
		return anyPod(pods, namespace, func(pod *corev1.Pod) bool { return visits(podutil.VisitPodSecretNames, pod, name) }) ||
			n.claimedVolume(ctx, pods, func(pv *corev1.PersistentVolume) bool { return volumeSecret(pv, namespace, name) }) ||
			ask.GetVerb() == "get" && n.certifies(ctx, namespace, name)
	}
	return false
}

func anyPod(pods []*corev1.Pod, namespace string, fits func(*corev1.Pod) bool) bool {
	for _, pod := range pods {
		if pod.Namespace == namespace && fits(pod) {
			return true
		}
	}
	return false
}

// visits keeps what it saw: the visitors of package pod do not hand on that a
// container's part ended early.
func visits(visit func(*corev1.Pod, podutil.Visitor) bool, pod *corev1.Pod, name string) bool {
	seen := false
	visit(pod, func(found string) bool {
		seen = seen || found == name
		return !seen
	})
	return seen
}

func hasClaim(pod *corev1.Pod, name string) bool {
	for claim := range claimsOf(pod) {
		if claim == name {
			return true
		}
	}
	return false
}

func (n *nodeRules) claimedVolume(ctx context.Context, pods []*corev1.Pod, fits func(*corev1.PersistentVolume) bool) bool {
	for _, pod := range pods {
		for claim := range claimsOf(pod) {
			pvc, err := view.Get[*corev1.PersistentVolumeClaim](ctx, n.objects, view.Claims, pod.Namespace, claim)
			if err != nil || pvc.Spec.VolumeName == "" {
				continue
			}
			pv, err := view.Get[*corev1.PersistentVolume](ctx, n.objects, view.Volumes, "", pvc.Spec.VolumeName)
			if err == nil && boundTo(pv, pvc) && fits(pv) {
				return true
			}
		}
	}
	return false
}

// boundTo asks the volume too: a claim may name any volume.
func boundTo(pv *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == pvc.Namespace && ref.Name == pvc.Name && (ref.UID == "" || ref.UID == pvc.UID)
}

// pods: a node reads those that are bound to it, and writes what NodeRestriction
// lets through.
func (n *nodeRules) pods(ctx context.Context, node string, ask authorizer.Attributes) (bool, string, error) {
	verb := ask.GetVerb()
	switch ask.GetSubresource() {
	case "status":
		return oneOf(verb, "update", "patch"), "", nil
	case "eviction":
		return verb == "create", "", nil
	case "":
	default:
		return false, "a node may not use this subresource of pods", nil
	}
	switch verb {
	case "create", "delete":
		return true, "", nil
	case "list", "watch":
		if selectsNode(ask, node) {
			return true, "", nil
		}
	case "get":
	default:
		return false, fmt.Sprintf("a node may not %s pods", verb), nil
	}
	if ask.GetName() == "" {
		return false, "a node can list and watch pods only with the field selector spec.nodeName", nil
	}
	return n.ownPod(ctx, node, ask)
}

func (n *nodeRules) ownPod(ctx context.Context, node string, ask authorizer.Attributes) (bool, string, error) {
	pod, err := view.Get[*corev1.Pod](ctx, n.objects, view.Pods, ask.GetNamespace(), ask.GetName())
	if err != nil && !view.Missing(err) {
		return false, "", err
	}
	if err == nil && pod.Spec.NodeName == node {
		return true, "", nil
	}
	return false, fmt.Sprintf("no relationship found between node '%s' and this object", node), nil
}

func selectsNode(ask authorizer.Attributes, node string) bool {
	requirements, err := ask.GetFieldSelector()
	if err != nil {
		return false
	}
	for _, r := range requirements {
		equals := r.Operator == selection.Equals || r.Operator == selection.DoubleEquals
		if r.Field == "spec.nodeName" && equals && r.Value == node {
			return true
		}
	}
	return false
}

// ownNode allows what NodeRestriction narrows to the node's own object, and
// reading all nodes: routes between machines are built from it.
func ownNode(ask authorizer.Attributes) (bool, string, error) {
	switch ask.GetSubresource() {
	case "":
		return oneOf(ask.GetVerb(), "create", "update", "patch", "get", "list", "watch"), "", nil
	case "status":
		return oneOf(ask.GetVerb(), "update", "patch"), "", nil
	}
	return false, "a node may not use this subresource of nodes", nil
}

func ownLease(node string, ask authorizer.Attributes) (bool, string, error) {
	if !oneOf(ask.GetVerb(), "get", "create", "update", "patch", "delete") {
		return false, "a node can only get, create, update, patch, or delete its lease", nil
	}
	if ask.GetNamespace() != corev1.NamespaceNodeLease {
		return false, fmt.Sprintf("a node can only access leases in the namespace %q", corev1.NamespaceNodeLease), nil
	}
	return ownByName(node, ask)
}

func ownCSINode(node string, ask authorizer.Attributes) (bool, string, error) {
	if ask.GetSubresource() != "" || !oneOf(ask.GetVerb(), "get", "create", "update", "patch", "delete") {
		return false, "a node can only get, create, update, patch, or delete its CSINode", nil
	}
	return ownByName(node, ask)
}

// ownByName leaves a create without a name to NodeRestriction.
func ownByName(node string, ask authorizer.Attributes) (bool, string, error) {
	create := ask.GetVerb() == "create" && ask.GetName() == ""
	if create || ask.GetName() == node {
		return true, "", nil
	}
	return false, fmt.Sprintf("node '%s' can only access the object of its own name", node), nil
}
